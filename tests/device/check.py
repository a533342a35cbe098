"""The check of a machine with a real NVIDIA GPU; `check.sh` starts it. The standard library only.

`look(eyes)` is the whole check over what it is given to look with, so that it can be tried without a GPU.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from driver import Absent, Cuda, Nvml

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
HOLD_MIB = 256
WAIT = 20.0  # seconds for a holder to be seen, and to be gone
EXIT = {"pass": 0, "fail": 1, "pending": 6}
_FIELDS = ("uuid", "name", "pci.bus_id", "memory.total", "driver_version")
_BLOCK = re.compile(r"^  nvidia:\n((?:    .*\n)+)", re.MULTILINE)
_VARIABLE = re.compile(r'- \{name: (\w+), value: uuid,.* none: "(.*?)"\}')
_CONSTANT = re.compile(r"- \{name: (\w+), value: constant, constant: (\w+)\}")


class Eyes:
    """What the check looks with. A test gives others."""

    def present(self) -> bool:
        """Whether the kernel knows an NVIDIA card: a tool alone proves none."""
        if Path("/dev/nvidiactl").exists() or Path("/proc/driver/nvidia/version").exists():
            return True
        vendors = Path("/sys/bus/pci/devices").glob("*/vendor")
        kinds = ((path, path.with_name("class")) for path in vendors)
        return any(_read(path) == "0x10de" and _read(kind).startswith("0x03") for path, kind in kinds)

    def tool(self) -> list[Json]:
        """The cards that nvidia-smi tells."""
        query = ["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"]
        lines = csv.reader(_run(query), skipinitialspace=True)
        rows = [dict(zip(_FIELDS, row, strict=True)) for row in lines]
        return [
            {"uuid": row["uuid"], "name": row["name"], "pci": row["pci.bus_id"].lower(),
             "memory": int(row["memory.total"]), "driver": row["driver_version"]}
            for row in rows
        ]  # fmt: skip

    def tool_pids(self, uuid: str) -> list[int]:
        """Processes that nvidia-smi tells on a card."""
        query = ["nvidia-smi", "--query-compute-apps=gpu_uuid,pid", "--format=csv,noheader"]
        rows = csv.reader(_run(query), skipinitialspace=True)
        return sorted(int(row[1]) for row in rows if len(row) == 2 and row[0] == uuid and row[1].isdigit())

    def library(self) -> tuple[str, list[Json]]:
        """(driver, cards) that NVML tells. Raises Absent."""
        nvml = Nvml()
        try:
            return nvml.driver(), nvml.cards()
        finally:
            nvml.close()

    def visible(self, variables: dict[str, str]) -> list[str]:
        """The cards that a process sees whose environment has these. Raises Absent."""
        done = subprocess.run(
            [sys.executable, "-B", __file__, "--child", "visible"], env=_env(variables), timeout=40,
            capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        return _answer(done.stdout)

    def holder(self, variables: dict[str, str]) -> subprocess.Popen[str]:
        """A process that holds the first card that it sees. Raises Absent."""
        process = subprocess.Popen(
            [sys.executable, "-B", __file__, "--child", "hold"], env=_env(variables), text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        try:
            assert process.stdout is not None
            _answer(process.stdout.readline())
        except Absent:
            self.end(process)
            raise
        return process

    def end(self, process: subprocess.Popen[str]) -> None:
        """Ends the holder."""
        process.kill()
        process.communicate()

    def files(self, pid: int) -> list[str]:
        """Device files of cards that a process has open, by the kernel."""
        folder, found = Path(f"/proc/{pid}/fd"), set()
        with suppress(OSError):
            for entry in folder.iterdir():
                with suppress(OSError):
                    found.add(os.readlink(entry))
        return sorted(path for path in found if re.fullmatch(r"/dev/nvidia\d+", path))

    def product(self) -> list[Json] | None:
        """The cards that our own probe finds; None where its packages are not here."""
        sys.path.insert(0, str(ROOT / "src"))
        try:  # optional: a bare machine has no packages
            from steelyard.devices.catalogue import load_catalogue
            from steelyard.devices.prober import Prober
            from steelyard.devices.settings import DeviceSettings
        except ImportError:
            return None
        prober = Prober(DeviceSettings(), load_catalogue(), lambda: time.time_ns() // 1000)
        try:
            answer = prober.look(("nvidia",), wait=30.0).answers.get("nvidia")
        finally:
            prober.close()
        readings = () if answer is None else answer.readings
        return [{"uuid": one.uuid, "memory": one.memory} for one in readings if one.parent is None]

    def sleep(self, seconds: float) -> None:
        """Waits."""
        time.sleep(seconds)


class Checks:
    """What was found, in order."""

    def __init__(self) -> None:
        self.found: list[Json] = []

    def add(
        self, id: str, ok: bool | None, expected: str, actual: str, *, seen_by: tuple[str, ...] = (),
        reason: str | None = None, mandatory: bool = True,
    ) -> None:  # fmt: skip
        """One check; `ok` None: pending, for `reason`."""
        status = "pending" if ok is None else "pass" if ok else "fail"
        self.found.append(
            {"id": f"device.{id}", "scenario": "device", "expected": expected, "actual": actual[:500],
             "status": status, "reason": reason or ("contradicted" if ok is False else None),
             "rule": id, "rule_version": 1, "seen_by": list(seen_by), "simulated": False,
             "mandatory": mandatory}
        )  # fmt: skip

    def status(self) -> str:
        """fail > pending > pass, over what counts."""
        of = {check["status"] for check in self.found if check["mandatory"]}
        return next((status for status in ("fail", "pending", "pass") if status in of), "pending")


def look(eyes: Any) -> Json:
    """The whole check."""
    checks = Checks()
    machine: Json = {"driver": None, "cards": []}
    if not eyes.present():
        checks.add("hardware", None, "a card that the kernel knows", "none", reason="hardware-absent")
        return _result(checks, machine)
    cards = _agree(eyes, checks, machine)
    if cards:
        _binding(eyes, checks, cards)
        _holding(eyes, checks, cards[0])
        _product(eyes, checks, cards)
    return _result(checks, machine)


def _result(checks: Checks, machine: Json) -> Json:
    status = checks.status()
    counted = [check for check in checks.found if check["mandatory"] and check["status"] == status]
    reason = next((check["reason"] for check in counted if check["reason"]), None)
    return {"status": status, "reason": reason, "machine": machine, "checks": checks.found}


def binding(uuid: str | None) -> dict[str, str]:
    """The environment by which the product's catalogue binds a process to a card, or to none.

    The file is read as text, so that its packages are not needed here.
    """
    block = _BLOCK.search((ROOT / "src/steelyard/devices/families.yaml").read_text(encoding="utf-8"))
    variable = None if block is None else _VARIABLE.search(block.group(1))
    if block is None or variable is None:
        raise SystemExit("families.yaml does not bind NVIDIA's cards by uuid")
    name, none = variable.groups()
    return {name: none if uuid is None else uuid, **dict(_CONSTANT.findall(block.group(1)))}


def _agree(eyes: Any, checks: Checks, machine: Json) -> list[Json]:
    expected = "NVML and nvidia-smi tell the same cards, driver and memory"
    try:
        tool = eyes.tool()
        driver, library = eyes.library()
    except (Absent, OSError, ValueError, subprocess.SubprocessError) as error:
        checks.add("nvml-agrees", None, expected, str(error), reason="driver-or-framework-unconfirmed")
        return []
    machine |= {"driver": driver, "cards": library}
    keys = ("uuid", "name", "pci", "memory")
    told = sorted(tuple(_same(card[key]) for key in keys) for card in tool)
    read = sorted(tuple(_same(card[key]) for key in keys) for card in library)
    drivers = {card["driver"] for card in tool} | {driver}
    ok = told == read and len(drivers) == 1 and bool(read)
    checks.add("nvml-agrees", ok, expected, f"{len(read)} cards, drivers {sorted(drivers)}"
               + ("" if ok else f": {told} / {read}"), seen_by=("nvml", "nvidia-smi"))  # fmt: skip
    return list(library)


def _same(value: Any) -> Any:
    """Bus addresses are written with four or eight digits of domain."""
    return re.sub(r"^0000(?=[0-9a-f]{4}:)", "", value) if isinstance(value, str) else value


def _binding(eyes: Any, checks: Checks, cards: list[Json]) -> None:
    expected = f"with {binding('UUID')} a process sees that card and no other; with {binding(None)} none"
    try:
        seen = {card["uuid"]: eyes.visible(binding(card["uuid"])) for card in cards}
        nothing = eyes.visible(binding(None))
    except (Absent, OSError, subprocess.SubprocessError) as error:
        checks.add("binding", None, expected, str(error), reason="driver-or-framework-unconfirmed")
        return
    ok = all(found == [uuid] for uuid, found in seen.items()) and nothing == []
    checks.add("binding", ok, expected, f"{seen}, none: {nothing}", seen_by=("libcuda",))


def _holding(eyes: Any, checks: Checks, card: Json) -> None:
    expected = f"a process with {HOLD_MIB} MiB on the card is seen while it lives"
    try:
        _, before = eyes.library()
        holder = eyes.holder(binding(card["uuid"]))
    except (Absent, OSError, subprocess.SubprocessError) as error:
        checks.add("holder-seen", None, expected, str(error), reason="driver-or-framework-unconfirmed")
        return
    used = _of(before, card)["used"]
    try:
        more = _until(eyes, lambda: _of(eyes.library()[1], card)["used"] >= used + HOLD_MIB)
        files, listed = eyes.files(holder.pid), _of(eyes.library()[1], card)["pids"]
        named = eyes.tool_pids(card["uuid"])
    finally:
        eyes.end(holder)
    actual = f"memory in use rose: {more}; files open: {files}"
    checks.add("holder-seen", more and bool(files), expected, actual, seen_by=("nvml", "kernel"))
    expected = "NVML and nvidia-smi name the holder's process"
    both = [holder.pid in pids for pids in (listed or [], named)]
    actual = f"pid {holder.pid}: NVML {listed}, nvidia-smi {named}"
    if not any(both):
        # in a container that has process numbers of its own the driver tells other numbers, or none
        checks.add("holder-named", None, expected, actual, reason="observer-missing", mandatory=False)
    else:
        checks.add("holder-named", all(both), expected, actual, seen_by=("nvml", "nvidia-smi"))
    gone = _until(eyes, lambda: _is_free(eyes, card, used, holder.pid))
    expected = "after its end memory is as before, and nobody names it"
    checks.add("released", gone, expected, f"free again: {gone}", seen_by=("nvml", "nvidia-smi"))


def _is_free(eyes: Any, card: Json, used: int, pid: int) -> bool:
    now = _of(eyes.library()[1], card)
    named = pid in (now["pids"] or []) or pid in eyes.tool_pids(card["uuid"])
    return bool(now["used"] < used + HOLD_MIB // 2 and not named and not eyes.files(pid))


def _of(cards: list[Json], card: Json) -> Json:
    return next(one for one in cards if one["uuid"] == card["uuid"])


def _until(eyes: Any, done: Callable[[], bool]) -> bool:
    until = time.monotonic() + WAIT
    while not done():
        if time.monotonic() > until:
            return False
        eyes.sleep(0.2)
    return True


def _product(eyes: Any, checks: Checks, cards: list[Json]) -> None:
    expected = "our own probe finds the same cards with the same memory"
    found = eyes.product()
    if found is None:
        checks.add("product-agrees", None, expected, "its packages are not installed here",
                   reason="evidence-incomplete", mandatory=False)  # fmt: skip
        return
    wanted = sorted((card["uuid"], card["memory"]) for card in cards)
    got = sorted((card["uuid"], card["memory"]) for card in found)
    checks.add("product-agrees", wanted == got, expected, f"{got}", seen_by=("nvml",))


# ---- the processes that it starts


def child(what: str) -> None:
    """`visible`: prints the cards that this process sees. `hold`: holds one until its input ends."""
    try:
        cuda = Cuda()
        answer = cuda.uuids()
        if what == "hold":
            cuda.hold(HOLD_MIB << 20)
    except Absent as error:
        print(json.dumps({"error": str(error)}), flush=True)
        return
    print(json.dumps({"cards": answer}), flush=True)
    if what == "hold":
        sys.stdin.read()


def _answer(text: str) -> list[str]:
    try:
        told: Json = json.loads(text)
    except ValueError:
        raise Absent(f"no answer: {text[:100]!r}") from None
    if "error" in told:
        raise Absent(told["error"])
    return list(told["cards"])


def _env(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "CUDA_CACHE_DISABLE": "1", **more}  # nothing is written into a home folder


def _run(command: list[str]) -> list[str]:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=30, check=True, stdin=subprocess.DEVNULL
    )
    return done.stdout.splitlines()


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def main(arguments: list[str]) -> int:
    """See check.sh."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", default=".")
    parser.add_argument("--child", choices=("visible", "hold"))
    given = parser.parse_args(arguments)
    if given.child:
        child(given.child)
        return 0
    began = time.monotonic()
    result = look(Eyes())
    result["seconds"] = round(time.monotonic() - began, 1)
    out = Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1)
    (out / "device-check.json").write_text(text + "\n")
    print(text)
    return EXIT[result["status"]]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

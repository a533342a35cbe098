"""Stand-in vendor tools that change over time: what they print is a state that a test writes.

A machine has a folder of tools, which any user may run, and an imitated bus, device files and kernel log. The
cluster's document (`settings` gives its part) marks what is found there as simulated; nothing of it is
evidence about hardware.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.support.pci_tree import add_card, add_file, remove_card

_QUERY = (
    "index, uuid, name, pci.bus_id, memory.total [MiB], memory.used [MiB], utilization.gpu [%], "
    "temperature.gpu, power.draw [W], power.limit [W], driver_version, mig.mode.current, "
    "ecc.errors.uncorrected.volatile.total"
)
_APPS = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
_NVIDIA = """#!/bin/sh
here=${0%/*}/.nvidia-smi
[ -e "$here/before" ] && . "$here/before"
case "$1" in
  --query-gpu*) cat "$here/query";;
  --query-compute-apps*) cat "$here/apps";;
  -L) cat "$here/list";;
  *) exit 2;;
esac
"""
_ASCEND = """#!/bin/sh
here=${0%/*}/.npu-smi
[ -e "$here/before" ] && . "$here/before"
case "$*" in
  info) cat "$here/info";;
  "info -m") cat "$here/map";;
  *) exit 2;;
esac
"""
_EDGE = "+---------------------------+---------------+----------------------------------------------------+"
_RULE = "+===========================+===============+====================================================+"


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA card as its tool tells it. `words` replaces the figures, e.g. `[GPU requires reset]`."""

    number: int
    temperature: int = 40
    ecc: int = 0
    mig: str = "Disabled"
    parts: tuple[str, ...] = ()
    words: str | None = None
    lost: bool = False

    @property
    def uuid(self) -> str:
        """Its uuid."""
        return f"GPU-{self.number:08d}-aaaa-4bbb-8ccc-dddddddddddd"

    @property
    def pci(self) -> str:
        """Its place on the bus."""
        return f"0000:{self.number + 16:02x}:00.0"

    def part_uuid(self, place: int) -> str:
        """The uuid of one of its partitions."""
        return f"MIG-{self.number:08d}-{place:04d}-5bbb-8ccc-dddddddddddd"


@dataclass
class StandIn:
    """The machine. Change what it has, then `show`."""

    folder: Path
    gpus: list[Gpu] = field(default_factory=list)
    npus: list[str] = field(default_factory=list)  # the health of each
    driver: str = "575.57.08"
    apps: list[tuple[str, int, str, int]] = field(default_factory=list)  # uuid, pid, name, MiB

    @property
    def tools(self) -> Path:
        """The folder of the tools."""
        return self.folder / "tools"

    @property
    def system(self) -> Path:
        """The folder over sys, dev and the kernel's log."""
        return self.folder / "system"

    def settings(self, **more: Any) -> dict[str, Any]:
        """`devices` of a cluster's document: looked at every second, recovered after four."""
        health = {"recoverAfter": "4s", "recoverSamples": 2, "unknownSamples": 2, "eventHold": "30s"}
        return {
            "tools": [str(self.tools)], "system": str(self.system), "simulated": True, "every": "1s",
            "timeLimit": "5s", "health": health, **more,
        }  # fmt: skip

    # ---- what it shows

    def gpu(self, number: int, **changed: Any) -> Gpu:
        """Changes one card, and shows it."""
        place = next(n for n, one in enumerate(self.gpus) if one.number == number)
        self.gpus[place] = replace(self.gpus[place], **changed)
        self.show()
        return self.gpus[place]

    def show(self) -> None:
        """Writes what the tools print from now on."""
        if self.gpus:
            self._tool("nvidia-smi", _NVIDIA)
            self._write("nvidia-smi", "query", self._query())
            self._write("nvidia-smi", "apps", "\n".join([_APPS, *map(_app, self.apps)]) + "\n")
            self._write("nvidia-smi", "list", self._list())
        if self.npus:
            self._tool("npu-smi", _ASCEND)
            self._write("npu-smi", "info", self._info())
            self._write("npu-smi", "map", self._map())

    def before(self, tool: str, script: str | None) -> None:
        """What the tool does first, e.g. `sleep 600`, `sleep 2` or `echo rubbish; exit 0`; None: nothing."""
        path = self.tools / f".{tool}" / "before"
        if script is None:
            path.unlink(missing_ok=True)
        else:
            self._write(tool, "before", script + "\n")

    def remove_tool(self, tool: str) -> None:
        """The tool is not installed any more."""
        (self.tools / tool).unlink()

    def plug(self, gpu: Gpu) -> None:
        """A card on the bus, with its driver."""
        add_card(self.system, gpu.pci, "0x10de", "0x030200", driver="nvidia", width=(16, 16))
        self.gpus.append(gpu)

    def unplug(self, number: int) -> None:
        """The card left the bus, and its tool does not list it any more."""
        gone = next(one for one in self.gpus if one.number == number)
        self.gpus.remove(gone)
        remove_card(self.system, gone.pci)
        self.show()

    def add_npu(self, health: str = "OK") -> Path:
        """An NPU on the bus, with its device file."""
        number = len(self.npus)
        address = f"0000:{number + 193:02x}:00.0"
        add_card(self.system, address, "0x19e5", "0x120000", device="0xd802", driver="devdrv")
        self.npus.append(health)
        return add_file(self.system, f"/dev/davinci{number}")

    def kernel_says(self, text: str) -> None:
        """A line in the kernel's log, now."""
        at = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        with (self.system / "dev/kmsg").open("a") as log:
            log.write(f"6,1,{at},-;{text}\n")

    # ---- as the tools print it

    def _query(self) -> str:
        lines = [_QUERY]
        for one in self.gpus:
            if one.lost:
                lines.append(f"Unable to determine the device handle for GPU {one.pci}: GPU is lost.")
                continue
            figures = f"81559 MiB, 1 MiB, 0 %, {one.temperature}, 69.88 W, 700.00 W"
            if one.words is not None:
                figures = ", ".join([one.words] * 6)
            name = "NVIDIA H100 80GB HBM3"
            bus = f"0000{one.pci.upper()}"
            lines.append(
                f"{one.number}, {one.uuid}, {name}, {bus}, {figures}, {self.driver}, {one.mig}, {one.ecc}"
            )
        return "\n".join(lines) + "\n"

    def _list(self) -> str:
        lines = []
        for one in self.gpus:
            lines.append(f"GPU {one.number}: NVIDIA H100 80GB HBM3 (UUID: {one.uuid})")
            for place, profile in enumerate(one.parts):
                lines.append(f"  MIG {profile}     Device  {place}: (UUID: {one.part_uuid(place)})")
        return "\n".join(lines) + "\n"

    def _info(self) -> str:
        lines = [
            "+" + "-" * 96 + "+",
            f"| {'npu-smi 24.1.rc3                 Version: 24.1.rc3':<95}|",
            _EDGE,
            _cells("NPU   Name", "Health", "Power(W)    Temp(C)           Hugepages-Usage(page)"),
            _cells("Chip", "Bus-Id", "AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)"),
            _RULE,
        ]
        for number, health in enumerate(self.npus):
            bus = f"0000:{number + 193:02X}:00.0"
            lines += [
                _cells(f"{number:<5} 910B3", health, "92.9        37                0    / 0"),
                _cells("0", bus, "0           0    / 0          3379 / 65536"),
                _RULE,
            ]
        return "\n".join(lines) + "\n"

    def _map(self) -> str:
        columns = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
        rows = [columns, *((str(n), "0", str(n), "Ascend 910B3") for n in range(len(self.npus)))]
        return "".join("\t" + "".join(f"{cell:<31}" for cell in row).rstrip() + "\n" for row in rows)

    def _tool(self, name: str, script: str) -> None:
        path = self.tools / name
        if not path.exists():
            (self.tools / f".{name}").mkdir(mode=0o755, exist_ok=True)
            path.write_text(script)
            path.chmod(0o755)

    def _write(self, tool: str, name: str, text: str) -> None:
        """By rename, so that a tool that runs meanwhile prints the one or the other."""
        path = self.tools / f".{tool}" / name
        new = path.with_name(f"{name}.new")
        new.write_text(text)
        new.chmod(0o644)
        os.replace(new, path)


def _cells(first: str, second: str, third: str) -> str:
    return f"| {first:<26}| {second:<14}| {third:<51}|"


def _app(one: tuple[str, int, str, int]) -> str:
    return f"{one[0]}, {one[1]}, {one[2]}, {one[3]} MiB"


@contextlib.contextmanager
def stand_in(gpus: int = 0, npus: int = 0) -> Iterator[StandIn]:
    """A machine with healthy cards. Its folder is one that any user can reach: tools do not run as root."""
    folder = Path(tempfile.mkdtemp(prefix="steelyard-stand-in-"))
    folder.chmod(0o755)
    machine = StandIn(folder)
    machine.tools.mkdir(mode=0o755)
    (machine.system / "dev").mkdir(parents=True)
    (machine.system / "dev/kmsg").touch()
    try:
        for number in range(gpus):
            machine.plug(Gpu(number))
        for _ in range(npus):
            machine.add_npu()
        machine.show()
        yield machine
    finally:
        shutil.rmtree(folder)

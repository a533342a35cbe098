"""The device probe: asks the vendors' own tools on this machine, and reads no more than it understands.

Written for this kit and not shared with any candidate, so that one mistake does not confirm itself. The
columns of nvidia-smi are found by their names; of npu-smi the listing that it prints without options is read.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
import time
from pathlib import Path

from steelyard.poc.observers.observed import Found, Seen

_SECONDS = 10.0
_FIELDS = "uuid,pci.bus_id,memory.total"
_APPS = "gpu_uuid,pid,process_name,used_gpu_memory"
_BUS = re.compile(r"\b([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\b")
_HBM = re.compile(r"(\d+)\s*/\s*(\d+)")


class ToolProbe:
    """`tools`: folder of the tools; `devices`: below it is dev, whose files tell who is on an NPU."""

    name = "device_probe"

    def __init__(self, tools: str | None, devices: str = "/", proc: str = "/proc") -> None:
        self._tools = tools
        self._devices = Path(devices)
        self._proc = Path(proc)

    def look(self, device_class: str) -> Seen:
        """What the tools of a class show now."""
        try:
            if device_class == "gpu":
                return self._seen("nvidia-smi", self._nvidia())
            if device_class == "npu":
                return self._seen("npu-smi", self._ascend())
            return Seen(observer=self.name, source="-", at=_now(), why=f"no tool for class {device_class}")
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            return Seen(observer=self.name, source="-", at=_now(), why=str(error)[:200])

    def _seen(self, source: str, devices: list[Found]) -> Seen:
        return Seen(observer=self.name, source=source, at=_now(), devices=tuple(devices))

    def _run(self, tool: str, *arguments: str) -> str:
        if self._tools is None:
            raise OSError("no folder of tools is named")
        done = subprocess.run(
            [os.path.join(self._tools, tool), *arguments], capture_output=True, timeout=_SECONDS, check=True,
            stdin=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")

    def _nvidia(self) -> list[Found]:
        cards = _rows(self._run("nvidia-smi", f"--query-gpu={_FIELDS}", "--format=csv"))
        apps = _rows(self._run("nvidia-smi", f"--query-compute-apps={_APPS}", "--format=csv"))
        on: dict[str, list[int]] = {}
        for row in apps:
            if row["pid"].isdigit():
                on.setdefault(row["gpu_uuid"], []).append(int(row["pid"]))
        return [
            Found(
                names=(row["uuid"], _bus(row["pci.bus_id"])), device_class="gpu",
                memory=_leading(row["memory.total"]), holders=tuple(on.get(row["uuid"], ())),
            )
            for row in cards
        ]  # fmt: skip

    def _ascend(self) -> list[Found]:
        found: list[Found] = []
        for line in self._run("npu-smi", "info").splitlines():
            bus = _BUS.search(line)
            if bus is None:
                continue
            memory = _HBM.findall(line[bus.end() :])
            number = len(found)
            found.append(
                Found(
                    names=(_bus(bus.group(1)),), device_class="npu",
                    memory=int(memory[-1][1]) if memory else None,
                    holders=self._openers(f"davinci{number}"),
                )
            )  # fmt: skip
        return found

    def _openers(self, name: str) -> tuple[int, ...] | None:
        """Processes that have a device's file open, from the kernel; None where there is no such file."""
        wanted = self._devices / "dev" / name
        if not wanted.exists():
            return None
        return tuple(sorted(pid for pid in pids(self._proc) if _opens(self._proc / str(pid) / "fd", wanted)))


def pids(proc: Path) -> list[int]:
    """Every process there is."""
    return [int(entry) for entry in os.listdir(proc) if entry.isdigit()]


def _opens(folder: Path, wanted: Path) -> bool:
    try:
        return any(os.readlink(folder / entry) == str(wanted) for entry in os.listdir(folder))
    except OSError:
        return False  # it has ended meanwhile, or is not ours to look at


def _rows(text: str) -> list[dict[str, str]]:
    """Rows under the names of their columns, units cut off. Raises ValueError for a row that is not whole."""
    lines = list(csv.reader(text.splitlines(), skipinitialspace=True))
    if not lines:
        raise ValueError("the tool printed nothing")
    heading = [cell.split(" [")[0].strip() for cell in lines[0]]
    rows = []
    for cells in lines[1:]:
        if len(cells) != len(heading):
            raise ValueError(f"a row that is not whole: {cells}"[:120])
        rows.append(dict(zip(heading, (cell.strip() for cell in cells), strict=True)))
    return rows


def _bus(text: str) -> str:
    """`00000000:10:00.0` as the kernel writes it."""
    domain, _, rest = text.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"


def _leading(text: str) -> int | None:
    number = text.split()[0] if text.split() else ""
    return int(number) if number.isdigit() else None


def _now() -> int:
    return time.time_ns() // 1000

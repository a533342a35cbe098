"""What the kernel of this machine shows: its cores and memory, and the processes of tasks."""

from __future__ import annotations

import os
import time
from pathlib import Path

from steelyard.poc.observers.observed import Found, Held, Seen
from steelyard.poc.observers.tools import pids

#: Variables by which a runtime tells a process which devices it may see.
VISIBLE = ("CUDA_VISIBLE_DEVICES", "ASCEND_RT_VISIBLE_DEVICES", "ASCEND_VISIBLE_DEVICES")
_NO_LIMIT = 1 << 60


class KernelProbe:
    """`root`: below it are proc and sys; None: not connected."""

    name = "kernel"

    def __init__(self, root: str | None = "/") -> None:
        self._root = None if root is None else Path(root)

    def look(self, device_class: str) -> Seen:
        """The machine's cores or memory, as far as this process may use them."""
        now = time.time_ns() // 1000
        if self._root is None:
            return Seen(observer=self.name, source="-", at=now, why="not connected")
        node = os.uname().nodename
        try:
            if device_class == "cpu":
                cores = _cores(self._root)
                found = Found(names=("cpu",), device_class="cpu", node=node, capacity=cores)
            elif device_class == "memory":
                memory = _memory(self._root)
                found = Found(names=("memory",), device_class="memory", node=node, capacity=memory)
            else:
                return Seen(observer=self.name, source="-", at=now, why=f"no class {device_class}")
        except (OSError, ValueError) as error:
            return Seen(observer=self.name, source="-", at=now, why=str(error)[:200])
        return Seen(observer=self.name, source="/proc, sched_getaffinity", at=now, devices=(found,))


class ProcessProbe:
    """Finds the process of a task by the mark that the trial put among its arguments."""

    name = "process_probe"

    def __init__(self, root: str | None = "/") -> None:
        self._proc = None if root is None else Path(root) / "proc"

    def task(self, mark: str) -> Held:
        """Whether a process with this mark lives, and which devices it was told that it may see."""
        if self._proc is None:
            return Held(observer=self.name, alive=None, why="not connected")
        try:
            found = [pid for pid in pids(self._proc) if self._marked(pid, mark)]
        except OSError as error:
            return Held(observer=self.name, alive=None, why=str(error)[:200])
        told: dict[str, str] = {}
        for pid in found:
            told |= self._visible(pid)
        devices = tuple((name, None) for value in told.values() for name in value.split(",") if name)
        return Held(observer=self.name, alive=bool(found), devices=devices, detail=told)

    def _marked(self, pid: int, mark: str) -> bool:
        if pid == os.getpid():
            return False
        try:
            arguments = (self._proc_of(pid) / "cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        # the program itself has the mark as an argument of its own, its supervisors have it inside of others
        return mark.encode() in arguments

    def _visible(self, pid: int) -> dict[str, str]:
        try:
            entries = (self._proc_of(pid) / "environ").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            return {}
        pairs = (entry.partition("=") for entry in entries)
        return {key: value for key, _, value in pairs if key in VISIBLE}

    def _proc_of(self, pid: int) -> Path:
        assert self._proc is not None
        return self._proc / str(pid)


def _cores(root: Path) -> int:
    """Milli-cores: the affinity of this process, less where a control group's quota allows less."""
    cores = len(os.sched_getaffinity(0)) * 1000
    for folder in _groups(root, "cpu"):
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        words = _text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            quota, period = int(words[0]), int(words[1])
        if quota and period and quota > 0:
            cores = min(cores, quota * 1000 // period)
    return cores


def _memory(root: Path) -> int:
    """MiB: the kernel's total, less where a control group's limit allows less."""
    line = next(line for line in _text(root / "proc/meminfo").splitlines() if line.startswith("MemTotal:"))
    total = int(line.split()[1]) // 1024
    for folder in _groups(root, "memory"):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _number(folder / name)
            if limit is not None and 0 < limit < _NO_LIMIT:
                total = min(total, limit // (1 << 20))
    return total


def _groups(root: Path, controller: str) -> list[Path]:
    """The control groups of this process for a controller, with all above."""
    found = []
    for line in _text(root / "proc/self/cgroup").splitlines():
        number, names, path = line.split(":", 2)
        if number == "0":
            base = root / "sys/fs/cgroup"
        elif controller in names.split(","):
            base = root / "sys/fs/cgroup" / controller
        else:
            continue
        own = base / path.strip("/")
        found += [folder for folder in (own, *own.parents) if folder == base or base in folder.parents]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.lstrip("-").isdigit() else None

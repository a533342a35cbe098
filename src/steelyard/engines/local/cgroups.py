"""Control groups of members: v2 where it is delegated to us, v1 where we may make groups, else rlimits.

A group holds every process of a member, whatever it forks or detaches, so it is also the surest list of
what has to be gone. Limits: memory from MIN_MEMORY MiB on, CPU from MIN_CPU milli-cores on (the kernel's
least quota is 1 ms in 100 ms). What is smaller is charged, not limited: no interpreter starts in 8 MiB.

Interfaces: the kernel's documents on cgroup-v1 (memory, cpu) and cgroup-v2. Standard library only.
"""

from __future__ import annotations

import os
from typing import NamedTuple

MIN_MEMORY = 64
MIN_CPU = 10
#: Address space is not what a program uses; only large limits are handed to RLIMIT_DATA.
MIN_RLIMIT_MEMORY = 256
_PERIOD = 100_000
_MIB = 1 << 20


class Hierarchy(NamedTuple):
    """Where our groups are made. `bases`: controller → folder; in v2 both are the same."""

    mode: str  # cgroup-v2 | cgroup-v1 | rlimit
    bases: tuple[tuple[str, str], ...]


NONE = Hierarchy("rlimit", ())


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)


def _read(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def detect(name: str, root: str = "") -> Hierarchy:
    """Makes the outer group `name` below this process's own, in v2 if that works, else in v1."""
    own = {}
    for line in _read(f"{root}/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(",") if number != "0" else ["v2"]:
            own[controller] = path
    return _detect_v2(own, name, root) or _detect_v1(own, name, root) or NONE


def _detect_v2(own: dict[str, str], name: str, root: str) -> Hierarchy | None:
    folder = f"{root}/sys/fs/cgroup{own.get('v2', '').rstrip('/')}"
    if "v2" not in own or "memory" not in _read(f"{folder}/cgroup.controllers").split():
        return None
    outer = f"{folder}/{name}"
    try:
        # Refused where processes are in the folder itself: then it is not ours to split.
        _write(f"{folder}/cgroup.subtree_control", "+memory +cpu")
        os.makedirs(outer, mode=0o755, exist_ok=True)
        _write(f"{outer}/cgroup.subtree_control", "+memory +cpu")
    except OSError:
        return None
    return Hierarchy("cgroup-v2", (("memory", outer), ("cpu", outer)))


def _detect_v1(own: dict[str, str], name: str, root: str) -> Hierarchy | None:
    bases = []
    for controller in ("memory", "cpu"):
        outer = f"{root}/sys/fs/cgroup/{controller}{own.get(controller, '').rstrip('/')}/{name}"
        try:
            os.makedirs(outer, mode=0o755, exist_ok=True)
        except OSError:
            continue
        if os.path.exists(f"{outer}/cgroup.procs"):
            bases.append((controller, outer))
    return Hierarchy("cgroup-v1", tuple(bases)) if bases and bases[0][0] == "memory" else None


def make(hierarchy: Hierarchy, member: str, cpu: int, memory: int) -> tuple[str, ...]:
    """Makes a member's groups with its limits (milli-cores, MiB). Raises OSError."""
    folders = dict.fromkeys(f"{base}/{member}" for _, base in hierarchy.bases)
    for folder in folders:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    for controller, base in hierarchy.bases:
        folder = f"{base}/{member}"
        if controller == "memory" and memory >= MIN_MEMORY:
            file = "memory.max" if hierarchy.mode == "cgroup-v2" else "memory.limit_in_bytes"
            _write(f"{folder}/{file}", str(memory * _MIB))
        elif controller == "cpu" and cpu >= MIN_CPU:
            quota = cpu * _PERIOD // 1000
            if hierarchy.mode == "cgroup-v2":
                _write(f"{folder}/cpu.max", f"{quota} {_PERIOD}")
            else:
                _write(f"{folder}/cpu.cfs_period_us", str(_PERIOD))
                _write(f"{folder}/cpu.cfs_quota_us", str(quota))
    return tuple(folders)


def join(folders: tuple[str, ...]) -> None:
    """Moves the calling process into the groups. Raises OSError."""
    for folder in folders:
        _write(f"{folder}/cgroup.procs", "0")


def members(folders: tuple[str, ...]) -> set[int]:
    """The processes in the groups now."""
    found: set[int] = set()
    for folder in folders:
        found.update(int(line) for line in _read(f"{folder}/cgroup.procs").split() if line.isdigit())
    return found


def oom_kills(folders: tuple[str, ...]) -> int:
    """How many processes the kernel ended in these groups for want of memory."""
    count = 0
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            for line in _read(f"{folder}/{file}").splitlines():
                key, _, value = line.partition(" ")
                if key == "oom_kill" and value.strip().isdigit():
                    count += int(value)
    return count


def remove(folders: tuple[str, ...]) -> bool:
    """Removes empty groups; True when none is left."""
    for folder in folders:
        try:
            os.rmdir(folder)
        except FileNotFoundError:
            continue
        except OSError:
            return False
    return True

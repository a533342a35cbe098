"""Control groups of members: v2 where it is delegated to us, v1 where we may make groups, else rlimits.

A group holds every process of a member, whatever it forks or detaches, so it is also the surest list of
what has to be gone, and in v2 is ended as a whole (cgroup.kill). Limits: memory from MIN_MEMORY MiB on, CPU
from MIN_CPU milli-cores on (the kernel's least quota is 1 ms in 100 ms), the number of processes and threads
always. What is smaller is charged, not limited: no interpreter starts in 8 MiB.

In v2 a group with processes of its own can't be split. Where the group that this process is in was delegated
(systemd marks it: `Delegate=yes`), its processes are moved into a group of their own beside ours.

Interfaces: the kernel's documents on cgroup-v1 (memory, cpu, pids) and cgroup-v2; systemd's on delegation.
Standard library only.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from steelyard.engines.local.files import read_text

MIN_MEMORY = 64
MIN_CPU = 10
#: Address space is not what a program uses; only large limits are handed to RLIMIT_DATA.
MIN_RLIMIT_MEMORY = 256
#: Processes and threads of one member: what no sane program reaches and no machine dies of.
MIN_PIDS = 4096
PIDS_A_CORE = 1024
_PERIOD = 100_000
_CONTROLLERS = ("memory", "cpu", "pids")
_DELEGATED = ("trusted.delegate", "user.delegate")
_OURS = "steelyard-server"
_MIB = 1 << 20
#: Busy processes a core, as which all members together are scheduled.
_A_CORE = 4
_ROOT = "/sys/fs/cgroup/"


def most_pids(cpu: int) -> int:
    """How many processes and threads a member of so many milli-cores may have."""
    return MIN_PIDS + PIDS_A_CORE * -(-cpu // 1000)


def outer_name(data: str) -> str:
    """The name of the outer group of a data folder's members."""
    return "steelyard-" + hashlib.sha256(data.encode()).hexdigest()[:12]


class Hierarchy(NamedTuple):
    """Where our groups are made. `bases`: controller → folder; in v2 all are the same."""

    mode: str  # cgroup-v2 | cgroup-v1 | rlimit
    bases: tuple[tuple[str, str], ...]


NONE = Hierarchy("rlimit", ())


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)




def detect(name: str, root: str = "") -> Hierarchy:
    """Makes the outer group `name` below this process's own, in v2 if that works, else in v1."""
    own = _own(root)
    return _detect_v2(own, name, root) or _detect_v1(own, name, root) or NONE


def _own(root: str = "") -> dict[str, str]:
    """Controller (or `v2`) → the path of the group that this process is in."""
    own = {}
    for line in read_text(f"{root}/proc/self/cgroup").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(",") if number != "0" else ["v2"]:
            own[controller] = path.rstrip("/")
    return own


def homes(folders: tuple[str, ...]) -> tuple[str, ...] | None:
    """The groups that this process is in, one for each of a member's: where it goes back to after it joined
    those. None where that is not known, or it could not go back."""
    own, found = _own(), []
    for folder in folders:
        controller = folder.removeprefix(_ROOT).partition("/")[0]
        if not folder.startswith(_ROOT) or (controller not in own and "v2" not in own):
            return None
        found.append(_ROOT + controller + own[controller] if controller in own else _ROOT[:-1] + own["v2"])
    return tuple(found) if _can_join(tuple(found)) else None


@cache
def _can_join(folders: tuple[str, ...]) -> bool:
    """Tried once, where it changes nothing: a group with groups of its own takes no process in v2, and some
    groups are another user's."""
    try:
        join(folders)
    except OSError:
        return False
    return True


def _detect_v2(own: dict[str, str], name: str, root: str) -> Hierarchy | None:
    folder = f"{root}/sys/fs/cgroup{own.get('v2', '').rstrip('/')}"
    there = read_text(f"{folder}/cgroup.controllers").split()
    if "v2" not in own or "memory" not in there:
        return None
    outer, wanted = f"{folder}/{name}", [one for one in _CONTROLLERS if one in there]
    asked = " ".join(f"+{one}" for one in wanted)
    try:
        try:
            _write(f"{folder}/cgroup.subtree_control", asked)
        except OSError:  # refused where processes are in the group itself
            if not _is_delegated(folder):
                return None  # not ours to split
            _move_aside(folder)
            _write(f"{folder}/cgroup.subtree_control", asked)
        os.makedirs(outer, mode=0o755, exist_ok=True)
        _write(f"{outer}/cgroup.subtree_control", asked)
    except OSError:
        return None
    _weigh(outer if "cpu" in wanted else None, "cpu.weight", 100, 10_000)
    return Hierarchy("cgroup-v2", tuple((one, outer) for one in wanted))


def _is_delegated(folder: str) -> bool:
    for name in _DELEGATED:
        try:
            if os.getxattr(folder, name) == b"1":
                return True
        except OSError:
            continue
    return False


def _move_aside(folder: str) -> None:
    """Moves the processes of a group that was given to us into one below it. Raises OSError."""
    ours = f"{folder}/{_OURS}"
    os.makedirs(ours, mode=0o755, exist_ok=True)
    for _ in range(10):  # a process that is forked meanwhile is there the next time
        pids = read_text(f"{folder}/cgroup.procs").split()
        if not pids:
            return
        for pid in pids:
            try:
                _write(f"{ours}/cgroup.procs", pid)
            except ProcessLookupError:
                continue


def _detect_v1(own: dict[str, str], name: str, root: str) -> Hierarchy | None:
    bases = []
    for controller in [one for one in _CONTROLLERS if one != "pids" or one in own]:
        outer = f"{root}/sys/fs/cgroup/{controller}{own.get(controller, '').rstrip('/')}/{name}"
        try:
            os.makedirs(outer, mode=0o755, exist_ok=True)
        except OSError:
            continue
        if os.path.exists(f"{outer}/cgroup.procs"):
            bases.append((controller, outer))
    if not bases or bases[0][0] != "memory":
        return None
    _weigh(dict(bases).get("cpu"), "cpu.shares", 1024, 262_144)
    return Hierarchy("cgroup-v1", tuple(bases))


def _weigh(outer: str | None, file: str, usual: int, most: int) -> None:
    """All members together weigh as much as a few busy processes a core, not as one: else a short program
    waits for its turn behind whoever starts it. What each may use is bounded by its own limit."""
    with suppress(OSError):  # only an order of preference
        if outer is not None:
            _write(f"{outer}/{file}", str(min(usual * _A_CORE * (os.cpu_count() or 1), most)))


def named(hierarchy: Hierarchy, member: str) -> tuple[str, ...]:
    """A member's groups, there or not."""
    return tuple(dict.fromkeys(f"{base}/{member}" for _, base in hierarchy.bases))


def make(hierarchy: Hierarchy, member: str, cpu: int, memory: int) -> tuple[str, ...]:
    """Makes a member's groups with its limits (milli-cores, MiB). Raises OSError."""
    folders = named(hierarchy, member)
    for folder in folders:
        os.makedirs(folder, mode=0o755, exist_ok=True)
    for controller, base in hierarchy.bases:
        for file, text in _limits(hierarchy.mode == "cgroup-v2", controller, cpu, memory):
            _write(f"{base}/{member}/{file}", text)
    return folders


def _limits(v2: bool, controller: str, cpu: int, memory: int) -> list[tuple[str, str]]:
    """(file, text) of a member's limits by one controller."""
    if controller == "pids":
        return [("pids.max", str(most_pids(cpu)))]
    if controller == "memory" and memory >= MIN_MEMORY:
        return [("memory.max" if v2 else "memory.limit_in_bytes", str(memory * _MIB))]
    if controller == "cpu" and cpu >= MIN_CPU:
        quota = cpu * _PERIOD // 1000
        if v2:
            return [("cpu.max", f"{quota} {_PERIOD}")]
        return [("cpu.cfs_period_us", str(_PERIOD)), ("cpu.cfs_quota_us", str(quota))]
    return []


def join(folders: tuple[str, ...]) -> None:
    """Moves the calling process, which has one thread, into the groups. Raises OSError.

    In v1 as that thread: to move whole processes the kernel waits until nobody on the machine is just being
    forked or is ending, which takes milliseconds where many are.
    """
    for folder in folders:
        if folder.removeprefix(_ROOT).partition("/")[0] in _CONTROLLERS:
            with suppress(FileNotFoundError):  # v2 after all, in a group of such a name
                _write(f"{folder}/tasks", "0")
                continue
        _write(f"{folder}/cgroup.procs", "0")


def put(folders: Sequence[str], pid: int) -> None:
    """Moves another process into the groups; what it forks afterwards is in them. Raises OSError."""
    for folder in folders:
        _write(f"{folder}/cgroup.procs", str(pid))


def members(folders: tuple[str, ...]) -> set[int]:
    """The processes in the groups now."""
    found: set[int] = set()
    for folder in folders:
        found.update(int(line) for line in read_text(f"{folder}/cgroup.procs").split() if line.isdigit())
    return found


def kill(folders: tuple[str, ...]) -> bool:
    """Ends every process of the groups at once; False where the kernel can't and it is done singly."""
    done = False
    for folder in folders:
        if os.path.exists(f"{folder}/cgroup.kill"):
            try:
                _write(f"{folder}/cgroup.kill", "1")
                done = True
            except OSError:
                continue
    return done


def oom_kills(folders: tuple[str, ...]) -> int:
    """How many processes the kernel ended in these groups for want of memory."""
    count = 0
    for folder in folders:
        for file in ("memory.events", "memory.oom_control"):
            for line in read_text(f"{folder}/{file}").splitlines():
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

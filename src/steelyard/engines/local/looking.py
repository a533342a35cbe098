"""Looking at the machine itself: is everything of an attempt gone, and what do running members use?

Nothing here trusts the runner's book: a release is proven from the kernel's process table, the control
groups, the port and the folders.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterable, Sequence
from typing import Any

from steelyard.engines.local import cgroups, procfs
from steelyard.engines.local.files import read_json
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.procfs import Process
from steelyard.engines.port import ReleaseProbe, Sample

_MIB = 1 << 20
Marks = dict[str, list[Process]]


def probe(
    layout: Layout, install: str, attempt_ids: Sequence[str], now: int
) -> tuple[ReleaseProbe, ...]:
    """One look for all of them."""
    everyone = [process for process in procfs.processes() if process.alive]
    marks = _marks(install, everyone)
    return tuple(_probe_attempt(layout, attempt, now, everyone, marks) for attempt in attempt_ids)


def _marks(install: str, everyone: Iterable[Process]) -> Marks:
    """Attempt → the processes that this install started with its mark. Another user's are not ours."""
    found: Marks = {}
    for process in everyone:
        env = procfs.environment(process.pid)
        attempt = env.get("STEELYARD_ATTEMPT")
        if attempt is not None and env.get("STEELYARD_INSTALL") == install:
            found.setdefault(attempt, []).append(process)
    return found


def _probe_attempt(
    layout: Layout, attempt: str, now: int, everyone: list[Process], marks: Marks
) -> ReleaseProbe:
    checks: dict[str, set[str]] = {"marked-processes": {_name(process) for process in marks.get(attempt, ())}}
    for member in _members(layout, attempt):
        for what, rest in _look_at(layout, attempt, member, everyone).items():
            checks.setdefault(what, set()).update(rest)
    residue = sorted(set().union(*checks.values()))
    seen = tuple((what, "remains" if rest else _GONE.get(what, "gone")) for what, rest in checks.items())
    return ReleaseProbe(attempt_id=attempt, at=now, free=not residue, checks=seen, residue=tuple(residue))


_GONE = {"port": "closed", "exit-status": "written"}


def _has_ended(layout: Layout, attempt: str, member: str) -> bool:
    """A member whose attempt is claimed may still start, however empty the machine is."""
    return os.path.lexists(layout.notes(member, "exit.json")) or not os.path.lexists(layout.claim(attempt))


def _members(layout: Layout, attempt: str) -> list[dict[str, Any]]:
    """Id and port of each member: from the claim, else (forgotten) from the names of the work folders."""
    if not is_id(attempt):
        return []
    claim = read_json(layout.claim(attempt))
    if claim is not None:
        return list(claim["members"])
    try:
        names = os.listdir(layout.attempt_work(attempt))
    except OSError:
        return []
    return [{"member": name, "port": None} for name in names if is_id(name)]


def _look_at(
    layout: Layout, attempt: str, member: dict[str, Any], everyone: list[Process]
) -> dict[str, set[str]]:
    name = member["member"]
    run = read_json(layout.notes(name, "run.json")) or {}
    same_boot = run.get("boot") == procfs.boot_id()
    child = run.get("child") or {} if same_boot else {}
    groups = tuple(run.get("groups", ())) if same_boot else ()
    found: dict[str, set[str]] = {
        "exit-status": set() if _has_ended(layout, attempt, name) else {f"{name} has not ended"},
        "shim": {f"shim of {name}"} if _is_locked(layout.notes(name, "lock")) else set(),
        "process-group": _in_group(child, everyone),
        "temporary-files": _left_files(os.path.join(layout.member_work(attempt, name), "tmp")),
    }
    if groups:
        found["control-group"] = {f"control group {one}" for one in groups if os.path.isdir(one)}
        by_pid = {process.pid: process for process in everyone}
        found["control-group"] |= {_name(by_pid[p]) for p in cgroups.members(groups) if p in by_pid}
    if member["port"] is not None:
        found["port"] = {f"port {member['port']} answers"} if _answers(member["port"]) else set()
    return found


def _in_group(child: dict[str, Any], everyone: list[Process]) -> set[str]:
    """Processes in the child's group or session, unless that number is a stranger's by now."""
    pid, start = child.get("pid"), child.get("start")
    if not isinstance(pid, int) or not isinstance(start, int):
        return set()
    leader = procfs.read_process(pid)
    if leader is not None and leader.start != start:
        return set()
    # A number is not given out anew while a group or session bears it; nobody in it is older than its leader.
    return {_name(p) for p in everyone if pid in (p.group, p.session) and p.start >= start}


def _is_locked(path: str) -> bool:
    try:
        fd = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _left_files(folder: str) -> set[str]:
    member = os.path.basename(os.path.dirname(folder))
    return {f"temporary files of {member}"} if os.path.lexists(folder) else set()


def _answers(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe_socket:
        probe_socket.settimeout(1.0)
        return probe_socket.connect_ex(("127.0.0.1", port)) == 0


def _name(process: Process) -> str:
    return f"process {process.pid} ({process.name})"


def sample(running: Iterable[Sequence[Any]], now: int) -> tuple[Sample, ...]:
    """CPU time and resident memory of each running member, summed over all its processes.

    `running`: (member id, shim's pid, shim's start time). Memory that processes share counts in each.
    Device use is not seen here: None.
    """
    everyone = procfs.processes()
    known = {process.pid: process for process in everyone}
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    samples = []
    for member, pid, start in running:
        shim = known.get(pid)
        if shim is None or shim.start != start:
            continue
        tree = procfs.descendants(pid, everyone)
        cpu = shim.waited_cpu + sum(process.cpu + process.waited_cpu for process in tree)
        memory = sum(process.pages for process in tree) * page
        samples.append(Sample(member, now, cpu * 1_000_000 // ticks, -(-memory // _MIB), None))
    return tuple(samples)

"""What of one member remains on the machine, check by check: what was looked at, what is left, how much.

Each check trusts the kernel and the folders alone. A process belongs to a member by its mark, by the process
group or session of the very child that was noted, or by its control group. What a stranger does with a file
that is kept anyway, reading it, holds nothing of the member.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from steelyard.engines.local import cgroups, container, kerneltables, procfs
from steelyard.engines.local.census import Census, Held
from steelyard.engines.local.files import is_empty_folder, measure, read_json
from steelyard.engines.local.kerneltables import Listener, Object
from steelyard.engines.local.leftovers import is_its, is_its_memory, shared_files
from steelyard.engines.local.paths import Layout

_SHIM = "steelyard-shim"  # as it names itself; a program has another user id than the supervisor
_ME = os.geteuid()
_MOST_ANCESTORS = 64


class Found(NamedTuple):
    """One check: what is left, by name; how many were looked at or left; what is said where nothing is."""

    left: tuple[str, ...] = ()
    number: int = 0
    seen: str = "gone"


@dataclass(slots=True)
class Tables:
    """The kernel's tables, read once for a batch and only as far as a batch needs them."""

    listeners: list[Listener] = field(default_factory=list)
    sockets: list[tuple[str, int]] = field(default_factory=list)
    objects: list[Object] = field(default_factory=list)
    mounts: list[str] = field(default_factory=list)
    shared: list[tuple[str, os.stat_result]] = field(default_factory=list)
    containers: dict[str, str] | str = field(default_factory=dict)  # by member; a text: why they aren't known

    @classmethod
    def read(cls, *, ports: bool, boxes_of: str | None = None, since: int = 0) -> Tables:
        """Reads them; those of TCP, which can be long, only if a port is looked for, and containers only of
        the install that is named. Nobody of the batch started before `since` (s UTC)."""
        text = kerneltables.read
        return cls(
            [one for path in kerneltables.TCP for one in kerneltables.listeners(text(path))] if ports else [],
            kerneltables.named_sockets(text(kerneltables.UNIX)),
            kerneltables.all_objects(),
            kerneltables.mount_points(text(kerneltables.MOUNTS)),
            shared_files(since),
            {} if boxes_of is None else container.left(boxes_of),
        )


@dataclass(frozen=True, slots=True)
class Notes:
    """What is known of a member: from the claim, and its notes of this boot of the machine."""

    attempt: str
    member: str
    port: int | None
    user: int | None  # the project's own user id, None where there is none
    devices: tuple[str, ...]  # files of devices that it had for itself alone
    run: dict[str, Any]
    swept: dict[str, Any]
    ended: bool
    boxed: bool = False  # it is, or was, in a container

    @property
    def child(self) -> tuple[int, int] | None:
        """(pid, start time) of its program."""
        noted = self.run.get("child") or {}
        pid, start = noted.get("pid"), noted.get("start")
        return (pid, start) if isinstance(pid, int) and isinstance(start, int) else None

    @property
    def since(self) -> int:
        """When its program started, s UTC; 0 where that is not known."""
        return int(self.run.get("started_at") or 0) // 1_000_000

    @property
    def groups(self) -> tuple[str, ...]:
        """Its control groups."""
        return tuple(self.run.get("groups", ()))

    @property
    def pids(self) -> frozenset[int]:
        """Processes that were its for certain."""
        own = {self.child[0]} if self.child else set()
        return frozenset(own | set(self.swept.get("pids", ())))


def read_notes(
    layout: Layout, attempt: str, member: dict[str, Any], boot: str, user: int | None = None
) -> Notes:
    """A member's notes. One whose attempt is claimed may still start, however empty the machine is."""
    name = member["member"]
    run = read_json(layout.notes(name, "run.json")) or {}
    return Notes(
        attempt=attempt,
        member=name,
        port=member.get("port"),
        user=user,
        devices=tuple(
            path for one in member.get("devices") or () if one.get("whole") for path in one.get("files", ())
        ),
        run=run if run.get("boot") == boot else {},
        swept=read_json(layout.notes(name, "swept")) or {},
        ended=os.path.lexists(layout.notes(name, "exit.json"))
        or not os.path.lexists(layout.claim(attempt)),
        boxed=os.path.lexists(layout.notes(name, container.NOTE)),
    )


def of_member(layout: Layout, notes: Notes, census: Census, tables: Tables) -> dict[str, Found]:
    """Every check of a member."""
    work = layout.member_work(notes.attempt, notes.member)
    name = notes.member
    below = census.work.get(notes.attempt, ())
    held = [one for one in below if one.path == work or one.path.startswith(work + "/")]
    found = {
        "exit-status": Found(() if notes.ended else (f"{name} has not ended",), int(notes.ended), "written"),
        "shim": _named([f"shim of {name}"] if _is_locked(layout.notes(name, "lock")) else []),
        "process-group": _named(census.name(p.pid) for p in in_group(notes.child, census)),
        "temporary-files": _temporary(work, name),
        "open-files": _open(held, census.logs.get(name, []), work, census),
        "mounts": _named(f"mount {one}" for one in kerneltables.mounts_below(work, tables.mounts)),
        "sockets": _named(f"socket {path}" for path, _ in tables.sockets if path.startswith(work + "/")),
        "shared-memory": _memory(notes, tables),
        "kept-files": _kept(work),
    }
    if notes.user is not None:
        found["user-processes"] = _named(census.name(p.pid) for p in of_user(notes, census))
    if notes.boxed:
        found["container"] = _container(notes, tables)
    if notes.groups:
        found["control-group"] = _groups(notes, census)
    if notes.port is not None:
        found["port"] = _port(notes.port, census, tables)
    if notes.devices:
        found["device-processes"] = _devices(notes, census)
    return found


def _named(left: Iterable[str]) -> Found:
    names = tuple(left)
    return Found(names, len(names))


def in_group(child: tuple[int, int] | None, census: Census) -> list[procfs.Process]:
    """Processes in the child's group or session, unless that number is a stranger's by now."""
    if child is None:
        return []
    pid, start = child
    leader = census.by_pid.get(pid)
    if leader is not None and leader.start != start:
        return []
    # A number is not given out anew while a group or session bears it; nobody in it is older than its leader.
    return [p for p in census.processes if pid in (p.group, p.session) and p.start >= start]


def of_user(notes: Notes, census: Census) -> list[procfs.Process]:
    """Processes of the project's user id since the member started that nobody else answers for: without any
    mark, below no marked process and below no other member's shim."""
    start = notes.child[1] if notes.child else None
    if start is None:
        return []
    return [
        process
        for process in census.processes
        if process.start >= start
        and census.user(process.pid) == notes.user
        and not census.is_marked(process.pid)
        and not _answered_for(process, census)
    ]


def _answered_for(process: procfs.Process, census: Census) -> bool:
    parent = census.by_pid.get(process.parent)
    for _ in range(_MOST_ANCESTORS):
        if parent is None or parent.pid == 1:
            return False
        if census.is_marked(parent.pid) or (_is_shim(parent) and census.user(parent.pid) == _ME):
            return True
        parent = census.by_pid.get(parent.parent)
    return False


def _is_shim(process: procfs.Process) -> bool:
    """It names itself right after its fork, and may be known from before."""
    if process.name == _SHIM:
        return True
    now = procfs.read_process(process.pid)
    return now is not None and now.start == process.start and now.name == _SHIM


def in_groups(groups: tuple[str, ...], census: Census) -> list[int]:
    """Living processes in these control groups."""
    return sorted(pid for pid in cgroups.members(groups) if pid in census.by_pid)


def _groups(notes: Notes, census: Census) -> Found:
    there = [f"control group {one}" for one in notes.groups if os.path.isdir(one)]
    return _named([*there, *(census.name(pid) for pid in in_groups(notes.groups, census))])


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


def _temporary(work: str, name: str) -> Found:
    folder = os.path.join(work, "tmp")
    if not os.path.lexists(folder) or is_empty_folder(folder):
        return Found()
    files, size = measure(folder)
    return Found((f"temporary files of {name}: {files}, {size} bytes",), files)


def _kept(work: str) -> Found:
    """What stays is the project's: counted, not left over."""
    files, _ = measure(work)
    return Found((), files, "kept")


def _open(held: list[Held], logs: list[Held], work: str, census: Census) -> Found:
    temporary = os.path.join(work, "tmp")
    bad = [
        one
        for one in held
        if one.deleted or one.how == "writes" or one.path == temporary or one.path.startswith(temporary + "/")
    ] + [one for one in logs if one.how == "writes"]
    readers = len(held) - len([one for one in bad if one in held])
    gone = {True: " (deleted)", False: ""}
    left = tuple(f"{census.name(one.pid)}: file {one.path}{gone[one.deleted]}" for one in bad)
    return Found(left, len(left) or readers, "read-only" if readers else "gone")


def _port(port: int, census: Census, tables: Tables) -> Found:
    """Who listens on the port that was given out, whoever it is: it can't be given out again."""
    inodes = [one.inode for one in tables.listeners if one.port == port]
    left = []
    for inode in inodes:
        holders = [census.name(pid) for pid in census.sockets.get(inode, ())]
        left.append(f"{', '.join(holders) or 'nobody seen'}: port {port}")
    return Found(tuple(left), len(left), "closed")


def _devices(notes: Notes, census: Census) -> Found:
    """Who has the device's file open. One that had it before the member started is the machine's own."""
    start = notes.child[1] if notes.child else 0
    holders = [
        (path, pid)
        for path in notes.devices
        for pid in census.devices.get(path, ())
        if pid in census.by_pid and census.by_pid[pid].start >= start
    ]
    return _named(f"{census.name(pid)}: device {path}" for path, pid in holders)


def _container(notes: Notes, tables: Tables) -> Found:
    """The member's container, running or not."""
    if isinstance(tables.containers, str):
        return _named([f"containers can't be listed: {tables.containers}"])
    there = tables.containers.get(notes.member)
    return _named([] if there is None else [f"container {there}"])


def _memory(notes: Notes, tables: Tables) -> Found:
    """System V objects and files of shared memory that are the member's for certain."""
    since, pids = notes.since, notes.pids
    left = [
        f"{one.kind} {one.id}: {one.size} bytes, {one.attached} attached"
        for one in tables.objects
        if is_its(one, pids, since)
    ]
    for path, status in tables.shared:
        if is_its_memory(path, status, pids, (notes.attempt, notes.member), since):
            left.append(f"shared memory {path}: {status.st_size} bytes")
    return _named(left)

"""One look at every process of the machine, which serves a whole batch of attempts.

What costs is reading what each process carries and has open. A mark is given at the start, so it is looked
for on processes that started after the oldest of the batch. Open files are read of all processes as soon as
one attempt of the batch left something that could be held (files, a port, a device); else of the same younger
ones: nothing was there that an older one could have opened.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from steelyard.engines.local.paths import Layout
from steelyard.engines.local.procfs import Known, Process

_MARKS = re.compile(rb"(?:^|\0)STEELYARD_(ATTEMPT|INSTALL)=([^\0]{1,80})")
_MOST_ENVIRONMENT = 4 << 20
_DELETED = " (deleted)"
_SOCKET = "socket:["


class Held(NamedTuple):
    """A file that a process has open, or is in. `how`: reads, writes or inside (its working directory)."""

    pid: int
    path: str
    how: str
    deleted: bool


@dataclass(slots=True)
class Census:
    """Living processes, whose mark each carries, and what each has open of what is asked for."""

    processes: list[Process]
    by_pid: dict[int, Process]
    users: dict[int, int] = field(default_factory=dict)  # of processes that may be read
    marks: dict[str, list[Process]] = field(default_factory=dict)  # by attempt
    marked: set[int] = field(default_factory=set)  # whoever carries a mark, also another install's
    read: set[int] = field(default_factory=set)  # whose environment was read
    work: dict[str, list[Held]] = field(default_factory=dict)  # below an attempt's work folder
    logs: dict[str, list[Held]] = field(default_factory=dict)  # a member's log
    devices: dict[str, list[int]] = field(default_factory=dict)
    sockets: dict[int, list[int]] = field(default_factory=dict)

    def user(self, pid: int) -> int | None:
        """Whose a process is; None where it is gone."""
        if pid not in self.users:
            try:
                self.users[pid] = os.stat(f"/proc/{pid}").st_uid
            except OSError:
                return None
        return self.users[pid]

    def is_marked(self, pid: int) -> bool:
        """Whether a process carries the mark of any attempt, however old it is."""
        if pid not in self.read:
            _mark(self, self.by_pid[pid], b"")
        return pid in self.marked

    def name(self, pid: int) -> str:
        """A process as it is shown."""
        process = self.by_pid.get(pid)
        return f"process {pid} ({process.name})" if process is not None else f"process {pid}"


def take(
    layout: Layout,
    install: str,
    *,
    since: int | None,
    deep: bool,
    devices: Collection[str] = (),
    inodes: Collection[int] = (),
    known: Known | None = None,
) -> Census:
    """Looks at everybody. `since`: clock ticks at which the oldest of the batch started; None: not known.
    `deep`: the open files of all processes are read. A mark counts on processes of this install only.
    `known`: what was seen of older processes by the look before.
    """
    everyone = [process for process in (known or Known()).processes(since) if process.alive]
    census = Census(everyone, {process.pid: process for process in everyone})
    ours = install.encode()
    prefixes = (layout.work + "/", layout.logs + "/")
    wanted = frozenset(inodes)
    for process in everyone:
        younger = since is None or process.start >= since
        if younger:
            _mark(census, process, ours)
        if deep or younger:
            _open_files(census, process.pid, prefixes, frozenset(devices), wanted)
    return census


def _mark(census: Census, process: Process, install: bytes) -> None:
    census.read.add(process.pid)
    try:
        fd = os.open(f"/proc/{process.pid}/environ", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return
    try:
        census.users[process.pid] = os.fstat(fd).st_uid
        text = os.read(fd, _MOST_ENVIRONMENT)
    except OSError:
        return
    finally:
        os.close(fd)
    if b"STEELYARD_INSTALL" not in text:
        return
    marks = dict(_MARKS.findall(text))
    census.marked.add(process.pid)
    if marks.get(b"INSTALL") == install and b"ATTEMPT" in marks:
        census.marks.setdefault(marks[b"ATTEMPT"].decode("ascii", "replace"), []).append(process)


def _open_files(
    census: Census, pid: int, prefixes: tuple[str, str], devices: frozenset[str], inodes: frozenset[int]
) -> None:
    base = f"/proc/{pid}/fd"
    try:
        names = os.listdir(base)
    except OSError:
        return
    for link in (*(f"{base}/{name}" for name in names), f"/proc/{pid}/cwd", f"/proc/{pid}/root"):
        try:
            path = os.readlink(link)
        except OSError:
            continue
        if path.startswith(prefixes):
            _note(census, pid, link, path, prefixes)
        elif path.startswith(_SOCKET):
            if inodes and (inode := int(path[len(_SOCKET) : -1])) in inodes:
                census.sockets.setdefault(inode, []).append(pid)
        elif path in devices:
            census.devices.setdefault(path, []).append(pid)


def _note(census: Census, pid: int, link: str, path: str, prefixes: tuple[str, str]) -> None:
    deleted = path.endswith(_DELETED)
    path = path.removesuffix(_DELETED)
    how = "inside"
    if "/fd/" in link:
        try:
            how = "writes" if os.lstat(link).st_mode & 0o200 else "reads"
        except OSError:
            return  # closed meanwhile
    held = Held(pid, path, how, deleted)
    work = prefixes[0]
    if path.startswith(work):
        census.work.setdefault(path[len(work) :].partition("/")[0], []).append(held)
    else:
        member = os.path.basename(path).partition(".")[0]
        census.logs.setdefault(member, []).append(held)

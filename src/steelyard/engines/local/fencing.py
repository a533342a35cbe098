"""Ending and taking away what an attempt left, within its ownership mark, and nothing else.

What is an attempt's: processes with its mark, in its child's group or session or in its control groups;
mounts below its work folder; its temporary folders; shared memory that the kernel ties to its processes. A
process that only has something of the attempt open is a stranger: it is named, and left alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from steelyard.engines.local import cgroups, container, kerneltables, procfs
from steelyard.engines.local.census import Census
from steelyard.engines.local.ending import clear_temporary
from steelyard.engines.local.leftovers import remove_memory, unmount
from steelyard.engines.local.looking import look, members_of, probe
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.remains import Notes, in_group, in_groups
from steelyard.engines.port import Fenced


def fence(layout: Layout, install: str, attempt_ids: Sequence[str], now: int) -> tuple[Fenced, ...]:
    """What was done for each attempt, and what is left right after."""
    boot = procfs.boot_id()
    notes = {attempt: members_of(layout, attempt, boot) for attempt in attempt_ids}
    census, _ = look(layout, install, [one for each in notes.values() for one in each])
    done = {attempt: _fence(layout, attempt, notes[attempt], census) for attempt in attempt_ids}
    left = {one.attempt_id: one.residue for one in probe(layout, install, attempt_ids, now)}
    return tuple(Fenced(attempt, tuple(done[attempt].items()), left[attempt]) for attempt in attempt_ids)


def _fence(layout: Layout, attempt: str, members: list[Notes], census: Census) -> dict[str, int]:
    processes = {process.pid: process for process in census.marks.get(attempt, ())}
    for one in members:
        if one.boxed:
            container.remove(layout, one.member)
        processes.update({process.pid: process for process in in_group(one.child, census)})
        processes.update({pid: census.by_pid[pid] for pid in in_groups(one.groups, census)})
    done = {"processes": sum(_end(process) for process in processes.values())}
    work = layout.attempt_work(attempt) if members else None
    done["mounts"] = sum(unmount(point) for point in kerneltables.mounts_below(work)) if work else 0
    for one in members:
        pids = one.pids | set(processes)
        since = (one.run.get("started_at") or 0) // 1_000_000
        objects, memory = remove_memory(pids, (attempt, one.member), since)
        files, size = 0, 0
        if one.ended:
            files, size = clear_temporary(os.path.join(layout.member_work(attempt, one.member), "tmp"))
        cgroups.remove(one.groups)
        for what, number in (("files", files), ("bytes", size), ("shared-memory", objects),
                             ("shared-bytes", memory)):  # fmt: skip
            done[what] = done.get(what, 0) + number
    return {what: number for what, number in done.items() if number}


def _end(process: procfs.Process) -> bool:
    """Kills this very process: its number may be another's by now, so it is held by a descriptor first."""
    if process.pid == os.getpid():
        return False
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if procfs.start_time(process.pid) != process.start:
            return False
        with suppress(OSError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
            return True
        return False
    finally:
        os.close(fd)

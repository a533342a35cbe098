"""Looking at the machine itself: is everything of an attempt gone, and what do running members use?

Nothing here trusts the runner's book: a release is proven from the kernel's tables of processes, sockets,
System V objects and mounts, from the control groups, and from the folders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

from steelyard.engines.local import procfs
from steelyard.engines.local.census import Census, take
from steelyard.engines.local.files import read_json
from steelyard.engines.local.paths import Layout, is_id
from steelyard.engines.local.procfs import Known
from steelyard.engines.local.remains import Found, Notes, Tables, of_member, read_notes
from steelyard.engines.port import ReleaseProbe, Sample

_MIB = 1 << 20
#: Members without anything that could be held are looked at among younger processes only: see census.py.
_CLEARED = ("processes", "files", "bytes", "shared-memory", "shared-bytes")


def probe(
    layout: Layout, install: str, attempt_ids: Sequence[str], now: int, known: Known | None = None
) -> tuple[ReleaseProbe, ...]:
    """One look for all of them. `known`: kept from look to look."""
    boot = procfs.boot_id()
    notes = {attempt: members_of(layout, attempt, boot) for attempt in attempt_ids}
    census, tables = look(layout, install, [one for each in notes.values() for one in each], known)
    return tuple(_of_attempt(layout, attempt, notes[attempt], now, census, tables) for attempt in attempt_ids)


def look(
    layout: Layout, install: str, members: Sequence[Notes], known: Known | None = None
) -> tuple[Census, Tables]:
    """Processes and tables, as far as these members need them. The tables come first: a socket that is
    handed on between the two looks is still held by somebody when the processes are looked at."""
    boxes_of = install if any(one.boxed for one in members) else None
    oldest = min((one.since for one in members), default=0)
    tables = Tables.read(
        ports=any(one.port is not None for one in members), boxes_of=boxes_of, since=oldest
    )
    ports = {one.port for one in members}
    inodes = {one.inode for one in tables.listeners if one.port in ports}
    devices = {path for one in members for path in one.devices}
    starts = [one.child[1] for one in members if one.child is not None]
    deep = bool(inodes or devices) or any(_left_something(layout, one) for one in members)
    since = min(starts) if len(starts) == len(members) and starts else None
    census = take(
        layout, install, since=since, deep=deep, devices=devices, inodes=inodes, known=known
    )  # fmt: skip
    return census, tables


def _left_something(layout: Layout, one: Notes) -> bool:
    """Whether there was anything below its work folder that a process could have open."""
    if not one.swept or one.swept.get("files"):
        return True
    work = layout.member_work(one.attempt, one.member)
    try:
        names = os.listdir(work)
        return any(os.path.isfile(f"{work}/{name}") or os.listdir(f"{work}/{name}") for name in names)
    except OSError:
        return True


def members_of(layout: Layout, attempt: str, boot: str) -> list[Notes]:
    """Notes of each member: from the claim, else (forgotten) by the names of the work folders."""
    if not is_id(attempt):
        return []
    claim = read_json(layout.claim(attempt))
    if claim is None:
        try:
            names = os.listdir(layout.attempt_work(attempt))
        except OSError:
            return []
        return [read_notes(layout, attempt, {"member": name}, boot) for name in names if is_id(name)]
    user = (claim.get("isolation") or {}).get("user")
    return [read_notes(layout, attempt, member, boot, user) for member in claim["members"]]


def _of_attempt(
    layout: Layout, attempt: str, members: list[Notes], now: int, census: Census, tables: Tables
) -> ReleaseProbe:
    marked = tuple(census.name(process.pid) for process in census.marks.get(attempt, ()))
    checks: dict[str, list[Found]] = {"marked-processes": [Found(marked, len(marked))]}
    for notes in members:
        for what, found in of_member(layout, notes, census, tables).items():
            checks.setdefault(what, []).append(found)
    residue = sorted({left for founds in checks.values() for found in founds for left in found.left})
    cleared = [(what, sum(one.swept.get(what, 0) for one in members)) for what in _CLEARED]
    return ReleaseProbe(
        attempt_id=attempt,
        at=now,
        free=not residue,
        checks=tuple((what, _seen(founds)) for what, founds in checks.items()),
        residue=tuple(residue),
        numbers=tuple((what, sum(found.number for found in founds)) for what, founds in checks.items()),
        cleared=tuple((what, number) for what, number in cleared if number),
    )


def _seen(founds: list[Found]) -> str:
    return "remains" if any(found.left for found in founds) else founds[-1].seen


def sample(running: Iterable[Sequence[Any]], now: int) -> tuple[Sample, ...]:
    """CPU time and resident memory of each running member, summed over all its processes.

    `running`: (member id, shim's pid, shim's start time, and, where the runner says so, clock ticks of what
    the shim had waited for before this member). Memory that processes share counts in each.
    Device use is not seen here: None.
    """
    everyone = procfs.processes()
    known = {process.pid: process for process in everyone}
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    samples = []
    for member, pid, start, *waited in running:
        shim = known.get(pid)
        if shim is None or shim.start != start:
            continue
        tree = procfs.descendants(pid, everyone)
        cpu = shim.waited_cpu - sum(waited) + sum(process.cpu + process.waited_cpu for process in tree)
        memory = sum(process.pages for process in tree) * page
        samples.append(Sample(member, now, cpu * 1_000_000 // ticks, -(-memory // _MIB), None))
    return tuple(samples)

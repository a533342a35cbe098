"""Processes that no member of this install owns: on accelerators, and those that take much CPU or memory.

A process is a member's when it is the member's shim or below it; it may be on the devices that its claim
names, and is a stranger to others. The supervisor and the server, with what they started, are nobody's.
One table of processes serves a whole look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from steelyard.devices.settings import HogRules
from steelyard.engines.local import procfs
from steelyard.engines.local.files import read_json
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.procfs import Process
from steelyard.model.health import DeviceHolder

_MIB = 1 << 20
_KERNEL_THREADS = 2
#: Of the first namespace of process numbers: only there are a driver's numbers ours (the kernel's nsfs).
_FIRST_NAMESPACE = "pid:[4026531836]"


@dataclass(slots=True)
class Owners:
    """One look at every process, and whose each is. `members`: process → member; `ours`: Steelyard's own."""

    processes: dict[int, Process]
    members: dict[int, str] = field(default_factory=dict)
    ours: set[int] = field(default_factory=set)

    def is_stranger(self, pid: int) -> bool:
        """Whether it is there, and neither a member's nor Steelyard's own."""
        return pid in self.processes and pid not in self.members and pid not in self.ours


def look(running: Iterable[Sequence[Any]], supervisor: int | None) -> Owners:
    """`running`: (member, shim's pid, its start time …); `supervisor`: the runner's process."""
    everyone = [process for process in procfs.processes() if process.alive]
    owners = Owners({process.pid: process for process in everyone})
    for member, pid, start, *_ in running:
        shim = owners.processes.get(pid)
        if shim is not None and shim.start == start:
            owners.members[pid] = member
            owners.members.update((process.pid, member) for process in procfs.descendants(pid, everyone))
    for root in (os.getpid(), supervisor):
        if root is not None and root in owners.processes:
            tree = {root, *(process.pid for process in procfs.descendants(root, everyone))}
            owners.ours |= tree - owners.members.keys()
    return owners


def devices_of_members(layout: Layout) -> Callable[[str], frozenset[str] | None]:
    """Member → uids of the devices in its claim; None where that is not known. Each claim is read once."""
    known: dict[str, frozenset[str] | None] = {}

    def of(member: str) -> frozenset[str] | None:
        if member not in known:
            known[member] = _claimed(layout, member)
        return known[member]

    return of


def _claimed(layout: Layout, member: str) -> frozenset[str] | None:
    run = read_json(layout.notes(member, "run.json")) or {}
    attempt = run.get("attempt")
    claim = read_json(layout.claim(attempt)) if isinstance(attempt, str) else None
    for one in (claim or {}).get("members", ()):
        if one.get("member") == member:
            uids = [device.get("uid") for device in one.get("devices") or ()]
            # A claim of an earlier version names none.
            return None if None in uids else frozenset(uids)
    return None


def numbers_are_ours() -> bool:
    """Whether process numbers that a driver tells are those of this process's own namespace."""
    try:
        return os.readlink("/proc/self/ns/pid") == _FIRST_NAMESPACE
    except OSError:
        return False


def on_device(
    uids: Collection[str],
    told: Iterable[DeviceHolder],
    by_file: Iterable[int],
    owners: Owners,
    claimed: Callable[[str], frozenset[str] | None],
) -> tuple[DeviceHolder, ...]:
    """Strangers on one device, by pid. `uids`: its own, and those of its partitions or its card; `told`: by
    its tool; `by_file`: processes that have its device file open."""
    found: dict[int, DeviceHolder] = {}
    for holder in (*told, *(DeviceHolder(pid, None) for pid in by_file)):
        pid = holder.pid
        process = None if pid is None else owners.processes.get(pid)
        if pid is None or process is None or pid in found or pid in owners.ours:
            continue
        member = owners.members.get(pid)
        given = None if member is None else claimed(member)
        if member is not None and (given is None or given & set(uids)):
            continue
        found[pid] = DeviceHolder(pid, holder.name or process.name, holder.memory, process.start)
    return tuple(found[pid] for pid in sorted(found))


def open_files(owners: Owners, paths: Collection[str], services: Collection[str]) -> dict[str, list[int]]:
    """Which processes have which of these files open, but for those of `services` (by name)."""
    found: dict[str, list[int]] = {}
    for pid, process in owners.processes.items():
        if process.pages == 0 or process.name in services:
            continue
        try:
            names = os.listdir(f"/proc/{pid}/fd")
        except OSError:
            continue
        seen = set()
        for name in names:
            try:
                path = os.readlink(f"/proc/{pid}/fd/{name}")
            except OSError:
                continue
            if path in paths and path not in seen:
                seen.add(path)
                found.setdefault(path, []).append(pid)
    return found


class Hogs:
    """Strangers that take a large share of CPU or memory, look after look."""

    def __init__(self, rules: HogRules, memory_total: int) -> None:
        """`memory_total`: MiB of the machine."""
        self._rules = rules
        self._memory = max(1, rules.memory * memory_total // 1000)
        self._ticks: dict[tuple[int, int], int] = {}
        self._at: int | None = None
        self._counts: dict[str, dict[tuple[int, int], int]] = {"cpu": {}, "memory": {}}
        self.cpu: tuple[DeviceHolder, ...] = ()
        self.memory: tuple[DeviceHolder, ...] = ()

    def look(self, owners: Owners, at: int) -> None:
        """One more look, `at` µs of a clock that does not go back."""
        span = None if self._at is None else at - self._at
        if span is not None and span <= 0:
            return
        strangers = [
            one for pid, one in owners.processes.items()
            if owners.is_stranger(pid) and one.parent != _KERNEL_THREADS and pid != _KERNEL_THREADS
        ]  # fmt: skip
        hertz, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        used: dict[tuple[int, int], int] = {}
        for one in strangers:
            before = self._ticks.get((one.pid, one.start))
            if before is not None and span:
                used[one.pid, one.start] = (one.cpu - before) * 1_000_000_000 // (hertz * span)
        resident = {(one.pid, one.start): one.pages * page // _MIB for one in strangers}
        names = {(one.pid, one.start): one.name for one in strangers}
        if span is not None:
            cpu = self._large("cpu", used, self._rules.cpu)
            self.cpu = tuple(
                DeviceHolder(pid, names[pid, start], start_time=start, cpu=used[pid, start])
                for pid, start in cpu
            )
        memory = self._large("memory", resident, self._memory)
        self.memory = tuple(
            DeviceHolder(pid, names[pid, start], resident[pid, start], start) for pid, start in memory
        )
        self._ticks, self._at = {(one.pid, one.start): one.cpu for one in strangers}, at

    def _large(
        self, what: str, amounts: Mapping[tuple[int, int], int], least: int
    ) -> list[tuple[int, int]]:
        """Those at or above the threshold for as many looks in a row as the rules ask for."""
        before = self._counts[what]
        counts = {who: before.get(who, 0) + 1 for who, amount in amounts.items() if amount >= least}
        self._counts[what] = counts
        return sorted(who for who, times in counts.items() if times >= self._rules.looks)

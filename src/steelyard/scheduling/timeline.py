"""Until when what runs may run: the instants at which places become free at the latest.

An attempt's bound is what the snapshot says of it (`timeline`), else the end of its own time limit, else
that within which nine of ten like runs had ended that ran as long as it has (of its template, else of its
kind); one that is asked to stop, or is over its bound, may end at any moment. What has no bound never ends,
as far as anybody knows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import TypeAlias

import numpy as np
from msgspec import Struct

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.run_times import RunTimes, keys_of
from steelyard.scheduling.runs import ENDS, STAYS, STOPS, Entry, as_runs
from steelyard.scheduling.snapshot import Snapshot, limited
from steelyard.scheduling.views import Charge, RunningView, amounts_of

#: The part of like runs that ends within a learned bound.
PERMILLE = 900
#: Ends that are looked at: those that come first.
MOST_ENDS = 8_192


class Release(Struct, frozen=True):
    """Places and charges that are given back at an instant (µs) at the latest."""

    at: int
    attempt_id: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]


#: What the snapshot has running, or a place that is planned.
Ending: TypeAlias = RunningView | Release


def latest_end(snapshot: Snapshot, run: RunningView, now: int) -> int | None:
    """When a running attempt has ended at the latest; None where nobody knows."""
    if run.stopping:
        return now
    bound = snapshot.timeline.get(run.attempt_id, run.ends_by)
    if bound is None and snapshot.run_times.by_key:
        keys = keys_of(run.template, run.kind)
        bound = limited(run.placed_at, snapshot.run_times.within(keys, now - run.placed_at, PERMILLE))
    return None if bound is None else max(bound, now)


def end_if_started(shape: Shape, start: int, times: RunTimes) -> int | None:
    """When an attempt of a shape has ended at the latest if it starts at an instant; None: nobody knows."""
    if shape.time_limit is None and times.by_key:
        return limited(start, times.within(keys_of(shape.template, shape.kind), 0, PERMILLE))
    return limited(start, shape.time_limit)


class Timeline:
    """What ends for certain, in the order in which it does. A step is an instant at which something ends."""

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        known = as_runs(snapshot.running).memory
        basis = (now, snapshot.timeline, snapshot.run_times)
        kept = known.get("timeline")
        if kept is None or any(a is not b and a != b for a, b in zip(kept[0], basis, strict=True)):
            kept = known["timeline"] = basis, _Ends(snapshot, now)
        self._ends: _Ends = kept[1]
        self._is_own = False  # else shared with whoever asks about the same snapshot
        self._counts: list[int] | None = None

    @property
    def releases(self) -> Sequence[Ending]:
        """All of them, in order."""
        return self._ends.items

    def add(self, release: Release) -> int:
        """One more that ends; where it stands now."""
        if not self._is_own:
            self._ends, self._is_own = self._ends.copy(), True
        at = self._ends.insert(release)
        self._counts = None
        return at

    @property
    def counts(self) -> list[int]:
        """By step, how many have ended after it."""
        if self._counts is None:
            instants = np.frombuffer(self._ends.instants, dtype=np.int64)
            steps = np.flatnonzero(np.diff(instants)) + 1
            self._counts = [*steps.tolist(), len(instants)] if len(instants) else []
        return self._counts

    def instant(self, step: int) -> int:
        """When it is."""
        return self._ends.instants[self.counts[step] - 1]

    def by(self, instant: int) -> Iterable[Ending]:
        """What has ended by an instant."""
        return self._ends.items[: bisect_right(self._ends.instants, instant)]

    def first_step(self, flavor: str, amount: int) -> int | None:
        """The first step after which that much of a flavor was given back in all; None: that never is."""
        reached = self._ends.reached(flavor, amount)
        return None if reached is None else bisect_right(self.counts, reached)


class _Ends:
    """What ends, with when it does and what is given back up to it, side by side."""

    __slots__ = ("instants", "items", "sums")

    def __init__(self, snapshot: Snapshot, now: int) -> None:
        over, later = _known_bounds(snapshot, now)
        over.sort(key=_attempt_id)
        self.items: list[Ending] = [*over, *(run for _, run in later)]
        self.instants = array("q", [now] * len(over) + [at for at, _ in later])
        del self.items[MOST_ENDS:], self.instants[MOST_ENDS:]
        self.sums: dict[str, list[int]] = {}  # by flavor, as far as somebody has asked

    def copy(self) -> _Ends:
        """One of its own."""
        made = object.__new__(_Ends)
        made.items, made.instants = list(self.items), self.instants[:]
        made.sums = {name: list(sums) for name, sums in self.sums.items()}
        return made

    def reached(self, flavor: str, amount: int) -> int | None:
        """With which of them so much of a flavor was given back in all; None: with none."""
        sums = self.sums.setdefault(flavor, [])
        total = sums[-1] if sums else 0
        for item in islice(self.items, len(sums), None) if total < amount else ():
            total += _given_back(item).get(flavor, 0)
            sums.append(total)
            if total >= amount:
                break
        at = bisect_left(sums, amount)
        return at if at < len(sums) else None

    def insert(self, release: Release) -> int:
        """One more, in its place; where that is."""
        low, high = (cut(self.instants, release.at) for cut in (bisect_left, bisect_right))
        at = bisect_right(self.items, release.attempt_id, low, high, key=_attempt_id)
        self.items.insert(at, release)
        self.instants.insert(at, release.at)
        for sums in self.sums.values():
            del sums[at:]
        return at


_attempt_id = attrgetter("attempt_id")


def _known_bounds(snapshot: Snapshot, now: int) -> tuple[list[RunningView], list[tuple[int, RunningView]]]:
    """(those that may end at any moment, the others that end first with when they do at the latest)."""
    runs = as_runs(snapshot.running)
    if not snapshot.timeline and not snapshot.run_times.by_key:  # the bounds that stand in them are in order
        ends = runs.at(*ENDS)[:MOST_ENDS]
        due = bisect_right(ends, now, key=_bound)
        over = [run for _, run in (*runs.at(*STOPS), *ends[:due])]
        return over, [(order[0], run) for order, run in ends[due:]]
    dated = [(latest_end(snapshot, run, now), run) for run in _soonest(snapshot)]
    later = [(at, run) for at, run in dated if at is not None and at > now]
    later.sort(key=lambda entry: (entry[0], entry[1].attempt_id))
    return [run for at, run in dated if at == now], later


def _bound(entry: Entry) -> int:
    return entry[0][0]


def _soonest(snapshot: Snapshot) -> Iterable[RunningView]:
    """Those that may be among the first to end: the bounds that stand in the runs themselves are in order."""
    if snapshot.timeline:
        return snapshot.running.values()
    runs = as_runs(snapshot.running)
    lists = [runs.at(*STOPS), runs.at(*ENDS)[:MOST_ENDS]]
    if snapshot.run_times.by_key:
        lists.append(runs.at(*STAYS))
    return [run for entries in lists for _, run in entries]


def _given_back(item: Ending) -> Mapping[str, int]:
    return item.held if isinstance(item, RunningView) else amounts_of(item.members)

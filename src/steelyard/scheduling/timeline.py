"""Until when what runs may run: the instants at which places become free at the latest.

An attempt's bound is what the snapshot says of it (`timeline`), else the end of its own time limit, else
that within which nine of ten like runs had ended that ran as long as it has (of its template, else of its
kind); one that is asked to stop, or is over its bound, may end at any moment. What has no bound never ends,
as far as anybody knows.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.run_times import RunTimes, keys_of
from steelyard.scheduling.runs import ENDS, STAYS, STOPS, as_runs
from steelyard.scheduling.snapshot import Snapshot, limited
from steelyard.scheduling.views import Charge, RunningView

#: The part of like runs that ends within a learned bound.
PERMILLE = 900
#: Ends that are looked at: those that come first.
MOST_ENDS = 8_192


@dataclass(frozen=True, slots=True)
class Release:
    """Places and charges that are given back at an instant (µs) at the latest."""

    at: int
    attempt_id: int
    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]
    run: RunningView | None = None  # None: it is not among what the snapshot has running


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
        dated = ((latest_end(snapshot, run, now), run) for run in _soonest(snapshot))
        self.releases = [
            Release(at, run.attempt_id, run.members, run.charges, run) for at, run in dated if at is not None
        ]
        self.releases.sort(key=_order)
        del self.releases[MOST_ENDS:]
        self._counts: list[int] | None = None
        self._sums: dict[str, list[int]] = {}

    def add(self, release: Release) -> None:
        """One more that ends."""
        insort(self.releases, release, key=_order)
        self._counts = None
        self._sums.clear()

    @property
    def counts(self) -> list[int]:
        """By step, how many have ended after it."""
        if self._counts is None:
            ending = self.releases
            self._counts = [
                index
                for index in range(1, len(ending) + 1)
                if index == len(ending) or ending[index].at > ending[index - 1].at
            ]
        return self._counts

    def instant(self, step: int) -> int:
        """When it is."""
        return self.releases[self.counts[step] - 1].at

    def by(self, instant: int) -> Iterable[Release]:
        """What has ended by an instant."""
        for release in self.releases:
            if release.at > instant:
                return
            yield release

    def first_step(self, flavor: str, amount: int) -> int | None:
        """The first step after which that much of a flavor was given back in all; None: that never is."""
        sums = self._sums.get(flavor)
        if sums is None:
            each = [_given_back(release, flavor) for release in self.releases]
            totals = list(accumulate(each))
            sums = self._sums[flavor] = [totals[count - 1] for count in self.counts]
        step = bisect_left(sums, amount)
        return step if step < len(sums) else None


def _soonest(snapshot: Snapshot) -> Iterable[RunningView]:
    """Those that may be among the first to end: the bounds that stand in the runs themselves are in order."""
    if snapshot.timeline:
        return snapshot.running.values()
    runs = as_runs(snapshot.running)
    lists = [runs.at(*STOPS), runs.at(*ENDS)[:MOST_ENDS]]
    if snapshot.run_times.by_key:
        lists.append(runs.at(*STAYS))
    return [run for entries in lists for _, run in entries]


def _given_back(release: Release, flavor: str) -> int:
    return sum(
        allocation.quantity
        for member in release.members
        for allocation in member.allocations
        if allocation.flavor == flavor
    )


def _order(release: Release) -> tuple[int, int]:
    return (release.at, release.attempt_id)

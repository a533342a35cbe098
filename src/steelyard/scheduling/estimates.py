"""When what waits will start: an interval, from two runs of the future, and what it rests on.

The same loop runs on virtual time twice: once with everything that runs ending as early as can be expected,
once as late. A run's end is known from its time limit (not later than that) and from finished work like it
(most ends lie between two quantiles). Where nothing is known of an end, the early future has it at once and
the late one never: then the interval is open, and says why.

Work that is submitted later and goes before is not foreseen; how often starts fell into their intervals is
measured (`steelyard estimates`) and shown beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from steelyard.model.policy import Policy
from steelyard.model.units import SECOND
from steelyard.model.workloads import Shape
from steelyard.scheduling.explain import can_ever_fit
from steelyard.scheduling.forward import Expected, Foreseen, Forward
from steelyard.scheduling.run_times import RunTimes, keys_of
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem, RunningView

#: Shares of like runs, in thousandths, that had ended by the early and by the late end: about nine starts in
#: ten shall fall into their intervals.
EARLY, LATE = 50, 950
#: How long one that is asked to stop takes at most, release included (µs).
STOPS_WITHIN = 30 * SECOND
#: Instants of one run of the future.
MAX_INSTANTS = 512


class Rests(StrEnum):
    """What the end of a run is known by."""

    LIMIT = "time-limit"
    LEARNED = "finished-runs"
    NOTHING = "unknown"


class Why(StrEnum):
    """Why an interval is open, or there is none."""

    ENDS_UNKNOWN = "ends-unknown"  # what stands in the way has no known end
    NEVER_FITS = "never-fits"
    NOTHING_ENDS = "nothing-ends"  # nothing that is expected to end makes room for it
    BOUND_MET = "bound-met"  # the look ahead was cut short
    HELD = "held"  # it is not let wait


@dataclass(frozen=True, slots=True)
class Estimate:
    """`[earliest, latest]` (µs) of a start; None: not known, and `why`. `rests` counts what runs now, by what
    its latest end is known by."""

    workload_id: int
    attempt_id: int
    earliest: int | None
    latest: int | None
    why: Why | None = None
    rests: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of run times."""

    times: RunTimes = field(default_factory=RunTimes)

    def bounds(
        self, keys: tuple[str, ...], elapsed: int, limit: int | None
    ) -> tuple[int, int | None, Rests]:
        """(early, late, by what) of the whole run time (µs) of a run that has taken `elapsed` so far."""
        early = self.times.within(keys, elapsed, EARLY)
        late = self.times.within(keys, elapsed, LATE)
        if early is None or late is None:
            rests = Rests.NOTHING if limit is None else Rests.LIMIT
            return elapsed, None if limit is None else max(elapsed, limit), rests
        if limit is not None and limit < late:
            return min(early, max(elapsed, limit)), max(elapsed, limit), Rests.LIMIT
        return early, late, Rests.LEARNED


class Estimator:
    """Both futures of one snapshot, looked at an instant at a time: call `step` until it is false."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        now: int,
        known: Known | None = None,
        wanted: Collection[int] | None = None,
        most: int = MAX_INSTANTS,
    ) -> None:
        """`wanted` are workload ids (None: all that wait); `most` instants are looked at in each future."""
        self._snapshot, self._policy, self._now, self._most = snapshot, policy, now, most
        self._known = known or Known()
        waiting = list(waiting_in(snapshot))
        self._items = {
            item.workload_id: (shape, item)
            for shape, item in waiting
            if wanted is None or item.workload_id in wanted
        }
        self._never: dict[str, bool] = {}  # by shape
        self._rests = dict.fromkeys((rests.value for rests in Rests), 0)
        early, late = {}, {}
        for attempt, run in sorted(snapshot.running.items()):
            first, last, rests = self._ends(run)
            self._rests[rests] += 1
            early[attempt] = first
            if last is not None:
                late[attempt] = last
        self._early = Forward(snapshot, policy, now, Expected(early, self._early_length))
        self._late = Forward(snapshot, policy, now, Expected(late, self._late_length, STOPS_WITHIN))
        self._open = [self._early, self._late]

    def _ends(self, run: RunningView) -> tuple[int, int | None, Rests]:
        if run.stopping:
            return self._now, self._now + STOPS_WITHIN, Rests.LIMIT
        limit = None if run.ends_by is None else run.ends_by - run.placed_at
        elapsed = max(0, self._now - run.placed_at)
        early, late, rests = self._known.bounds(keys_of(run.template, run.kind), elapsed, limit)
        return run.placed_at + early, None if late is None else run.placed_at + late, rests

    def _early_length(self, shape: Shape, _item: PendingItem) -> int | None:
        return self._known.bounds(keys_of(shape.template, shape.kind), 0, shape.time_limit)[0]

    def _late_length(self, shape: Shape, _item: PendingItem) -> int | None:
        return self._known.bounds(keys_of(shape.template, shape.kind), 0, shape.time_limit)[1]

    def step(self) -> bool:
        """One instant of one of the futures; False when both are known as far as they are wanted."""
        if self._open:
            current = self._open[0]
            if self._has_all(current.future) or not current.step(self._most):
                self._open.pop(0)
        return bool(self._open)

    def _has_all(self, future: Foreseen) -> bool:
        return self._items.keys() <= future.first.keys()

    def estimates(self) -> dict[int, Estimate]:
        """By workload id, of all that were wanted; to be called when `step` is false."""
        return {workload: self._estimate(workload, *found) for workload, found in self._items.items()}

    def _estimate(self, workload: int, shape: Shape, item: PendingItem) -> Estimate:
        early, late = self._early.future, self._late.future
        first, last = early.first.get(workload), late.first.get(workload)
        if first is not None and last is not None:
            return self._made(item, min(first, last), max(first, last), None)
        if first is None and last is not None:  # what ended early let others go before
            return self._made(item, last, None, Why.BOUND_MET if not early.complete else Why.NOTHING_ENDS)
        if last is None and not late.complete:
            return self._made(item, first, None, Why.BOUND_MET)
        if first is None and self._never_fits(shape):
            return self._made(item, None, None, Why.NEVER_FITS)
        return self._made(item, first, None, Why.ENDS_UNKNOWN if self._is_open_ended else Why.NOTHING_ENDS)

    def _never_fits(self, shape: Shape) -> bool:
        """Asked once for each shape: many may wait of one."""
        known = self._never.get(shape.key)
        if known is None:
            known = self._never[shape.key] = bool(can_ever_fit(self._snapshot, self._policy, shape))
        return known

    @cached_property
    def _is_open_ended(self) -> bool:
        """Of something that runs, or waits, nobody knows until when."""
        lengths = (self._late_length(shape, item) for shape, item in waiting_in(self._snapshot))
        return bool(self._rests[Rests.NOTHING]) or any(length is None for length in lengths)

    def _made(self, item: PendingItem, first: int | None, last: int | None, why: Why | None) -> Estimate:
        return Estimate(item.workload_id, item.attempt_id, first, last, why, self._rests)


def estimate(
    snapshot: Snapshot,
    policy: Policy,
    now: int,
    known: Known | None = None,
    wanted: Collection[int] | None = None,
    most: int = MAX_INSTANTS,
) -> dict[int, Estimate]:
    """The estimates of what waits, by workload id. Changes nothing."""
    estimator = Estimator(snapshot, policy, now, known, wanted, most)
    while estimator.step():
        pass
    return estimator.estimates()


def waiting_in(snapshot: Snapshot) -> Iterable[tuple[Shape, PendingItem]]:
    """Who waits or has a place kept, as far as the snapshot shows it."""
    for group in snapshot.pending:
        for head in group.heads:
            yield group.shape, head
    for hold in snapshot.holds.values():
        yield hold.shape, hold.item

"""The loop's future on virtual time: `decide`, unchanged, at each instant at which something happens.

What happens is what is expected: attempts end, others are submitted, the policy or the limits are changed.
Between two such instants nothing changes that a decision rests on. Victims stop within their grace and are
submitted anew, as in the house. Who may evict is looked for where somebody arrived, a rule of time says so
or the rules changed: an end alone makes room, and nobody evictable. Work is bounded by counts (instants,
cycles), never by a clock; a run that met its bound says so. A run can be done in steps, one instant each, by
who has other things to do.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import Shape
from steelyard.scheduling.changes import without_attempts
from steelyard.scheduling.context import EXPLAIN_EVERY
from steelyard.scheduling.decide import decide
from steelyard.scheduling.decisions import Decisions, Eviction
from steelyard.scheduling.snapshot import AddPending, Snapshot
from steelyard.scheduling.views import PendingItem, RunningView
from steelyard.scheduling.what_if import WhatIf, changed_by

#: Cycles at one instant.
MAX_CYCLES = 64
#: Ids of attempts that follow an evicted one in a simulation; no real one is so large.
_IMAGINED = 2**62

Length = Callable[[Shape, PendingItem], int | None]
Judge = Callable[[Snapshot, Policy, Shape], tuple[Reason, ...]]


@dataclass(frozen=True, slots=True)
class Arrival:
    """Something is submitted at an instant (µs), or waits again; only what is `fresh` is judged."""

    at: int
    shape: Shape
    item: PendingItem
    fresh: bool = True


@dataclass(frozen=True, slots=True)
class Expected:
    """What is expected to happen.

    `ends`: when each running attempt's release is proven (µs); one that is not there never ends.
    `length`: how long an attempt holds its devices once it is placed (µs); None: for ever. `stop`: how long
    one that is asked to stop takes. `arrivals` and `changes` at their instants, in any order. `judge`: why
    what is submitted is refused; empty where it is let in.
    """

    ends: Mapping[int, int]
    length: Length
    stop: int = 0
    arrivals: tuple[Arrival, ...] = ()
    changes: tuple[tuple[int, tuple[WhatIf, ...]], ...] = ()
    judge: Judge | None = None


@dataclass(slots=True)
class Foreseen:
    """What came of it: by workload when it was first and last placed, all evictions with their instants, and
    beside them those by which gangs only gave up members: when, what, and with how many it went on. `until`:
    how far the run came (µs)."""

    first: dict[int, int] = field(default_factory=dict)
    last: dict[int, int] = field(default_factory=dict)
    evictions: list[tuple[int, Eviction]] = field(default_factory=list)
    shrinks: list[tuple[int, Eviction, int]] = field(default_factory=list)
    refused: dict[int, tuple[Reason, ...]] = field(default_factory=dict)  # by workload
    until: int = 0
    instants: int = 0
    complete: bool = True
    after: Snapshot = field(default_factory=Snapshot)


class Forward:
    """One run. Call `step` until it is false, or `run`."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int, expected: Expected) -> None:
        self.future = Foreseen(until=now)
        self._snapshot = replace(snapshot, last_looked={})
        self._policy = policy
        self._expected = expected
        self._imagined = _IMAGINED
        self._shapes = {group.shape.key: group.shape for group in snapshot.pending}
        self._shapes.update((hold.shape.key, hold.shape) for hold in snapshot.holds.values())
        self._items: dict[int, tuple[Shape, PendingItem]] = {}  # of what was placed or is held here
        self._agenda: list[tuple[int, int, int, object]] = []  # at, kind, number, what
        self._pushed = 0
        self._dead: set[int] = set()
        self._anew: set[str] | None = None  # shapes that look for whom to evict at this instant; None: all
        self._note_items()
        for attempt in sorted(snapshot.running):
            if attempt in expected.ends:
                self._push(max(now, expected.ends[attempt]), _ENDS, attempt)
        for arrival in sorted(expected.arrivals, key=lambda each: (each.at, each.item.workload_id)):
            self._push(max(now, arrival.at), _ARRIVES, arrival)
        for at, changes in expected.changes:
            self._push(max(now, at), _CHANGES, changes)
        self._push(now, _LOOKS, None)

    def run(
        self, instants: int, until: int | None = None, enough: Callable[[Foreseen], bool] | None = None
    ) -> Foreseen:
        """At most so many instants, none of them after `until`, no more once it is `enough`."""
        while self.step(instants, until):
            if enough is not None and enough(self.future):
                break
        return self.future

    def step(self, instants: int, until: int | None = None) -> bool:
        """All that happens at the next instant, and the cycles that follow; False when there is no more."""
        if not self._agenda or (until is not None and self._agenda[0][0] > until):
            return self._stop(until)
        if self.future.instants >= instants:
            self.future.complete = False
            return self._stop(self.future.until)
        now = self._agenda[0][0]
        self.future.until, self.future.instants = now, self.future.instants + 1
        ended: set[int] = set()
        self._anew = set()
        while self._agenda and self._agenda[0][0] == now:
            _, kind, _, what = heapq.heappop(self._agenda)
            self._happen(kind, what, ended)
        if ended:
            self._snapshot = without_attempts(self._snapshot, ended)
        self._cycles(now)
        return True

    # --- what happens ---------------------------------------------------------------------------------
    def _happen(self, kind: int, what: object, ended: set[int]) -> None:
        if kind in (_LOOKS, _CHANGES):
            self._anew = None
        if kind == _ENDS and isinstance(what, int) and what not in self._dead:
            ended.add(what)
            self._dead.add(what)
        elif isinstance(what, Arrival):
            self._arrive(what)
        elif kind == _CHANGES and isinstance(what, tuple):
            self._snapshot, self._policy = changed_by(self._snapshot, self._policy, what)

    def _arrive(self, arrival: Arrival) -> None:
        judge = self._expected.judge
        reasons = judge(self._snapshot, self._policy, arrival.shape) if judge and arrival.fresh else ()
        if reasons:
            self.future.refused[arrival.item.workload_id] = reasons
            return
        self._shapes[arrival.shape.key] = arrival.shape
        if self._anew is not None:
            self._anew.add(arrival.shape.key)
        self._snapshot = self._snapshot.with_(AddPending(arrival.shape, arrival.item))

    def _cycles(self, now: int) -> None:
        clusters = {
            name: replace(view, observed_at=now) if view.reachable and view.observed_at is not None else view
            for name, view in self._snapshot.clusters.items()
        }
        self._snapshot = replace(self._snapshot, clusters=clusters, last_looked=self._looked(now))
        for _ in range(MAX_CYCLES):
            decisions = decide(self._snapshot, self._policy, now)
            self._note_items()
            self._snapshot = self._snapshot.apply(decisions)
            self._follow(decisions, now)
            if not decisions.changes_state and not decisions.stats.more:
                self._look_later(decisions)
                return
        self.future.complete = False

    def _looked(self, now: int) -> dict[str, int]:
        """As if all shapes but those to be looked at anew had just been looked at."""
        if self._anew is None:
            return {}
        keys = {group.shape.key for group in self._snapshot.pending} - self._anew
        return dict.fromkeys(keys, now)

    def _look_later(self, decisions: Decisions) -> None:
        """Somebody becomes eligible, or a rule of time lets something happen. That a shape is looked at again
        each second is of no interest while nothing changes."""
        now = decisions.now
        instants = [
            max(head.not_before, head.eligible_at) for group in self._snapshot.pending for head in group.heads
        ]
        told = decisions.stats.next_at
        if told is not None and told > now + EXPLAIN_EVERY:
            instants.append(told)
        later = [at for at in instants if at > now]
        if later:
            self._push(min(later), _LOOKS, None)

    def _follow(self, decisions: Decisions, now: int) -> None:
        for placed in decisions.placements:
            self.future.first.setdefault(placed.workload_id, now)
            self.future.last[placed.workload_id] = now
            shape, item = self._items[placed.attempt_id]
            length = self._expected.length(shape, item)
            if length is not None:
                self._push(now + max(1, length), _ENDS, placed.attempt_id)
        for eviction in decisions.evictions:
            if eviction.members:
                stay = len(self._snapshot.running[eviction.attempt_id].members)
                self.future.shrinks.append((now, eviction, stay))
                for gone in eviction.members:
                    self._push(now + self._expected.stop, _ENDS, gone.member_id)
                continue
            self.future.evictions.append((now, eviction))
            self._push(now + self._expected.stop, _ENDS, eviction.attempt_id)
            self._requeue(self._snapshot.running[eviction.attempt_id], now + self._expected.stop)

    def _requeue(self, victim: RunningView, at: int) -> None:
        """The next attempt keeps the workload's first submit time, where that is known here."""
        shape = self._shapes.get(victim.shape_key)
        if shape is None:
            return
        known = self._items.get(victim.attempt_id)
        submitted = known[1].submitted if known is not None else victim.placed_at
        self._imagined += 1
        item = PendingItem(victim.workload_id, self._imagined, submitted, at)
        self._push(at, _ARRIVES, Arrival(at, shape, item, fresh=False))

    # --- books ------------------------------------------------------------------------------------------
    def _note_items(self) -> None:
        """Who waits or has a place kept: once it runs, the snapshot no longer tells its shape and item."""
        for group in self._snapshot.pending:
            for head in group.heads:
                self._items[head.attempt_id] = (group.shape, head)
        for hold in self._snapshot.holds.values():
            self._items[hold.attempt_id] = (hold.shape, hold.item)

    def _push(self, at: int, kind: int, what: object) -> None:
        self._pushed += 1
        heapq.heappush(self._agenda, (at, kind, self._pushed, what))

    def _stop(self, until: int | None) -> bool:
        self.future.after = self._snapshot
        if until is not None:
            self.future.until = max(self.future.until, until)
        return False


_ENDS, _ARRIVES, _CHANGES, _LOOKS = range(4)


"""What would come of a change: the cycles that would follow at this instant, beside those without it.

`decide` is called unchanged, on snapshots that are made of the given one; that one stays as it is and
nothing is written. Both courses run to their fixed point: until a cycle decides nothing more. A course is
bounded by a count of cycles, and says so where it was cut short.

Each shape is looked at anew in both courses, as it is within a second whatever happened to be looked at
just before: `Snapshot.last_looked` is a bound on work, no part of the state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason
from steelyard.model.workloads import Shape
from steelyard.scheduling.changes import (
    EndAttempts,
    FollowNodes,
    FollowTrees,
    recounted,
    with_nodes,
    with_trees,
    without_attempts,
)
from steelyard.scheduling.decide import decide
from steelyard.scheduling.decisions import (
    Decisions,
    Eviction,
    Growth,
    Placement,
    Refusal,
    ShapeReasons,
)
from steelyard.scheduling.snapshot import AddDevices, AddPending, Change, ChangeLimit, CordonNode, Snapshot
from steelyard.scheduling.views import HoldView

#: Cycles of one course.
MAX_CYCLES = 64


@dataclass(frozen=True, slots=True)
class FollowPolicy:
    """What if this policy were followed?"""

    policy: Policy


WhatIf: TypeAlias = Change | EndAttempts | FollowNodes | FollowTrees | FollowPolicy


class Fate(StrEnum):
    """What becomes of an attempt at this instant."""

    STARTS = "starts"
    HELD = "held"  # a place is kept for it while others stop
    WAITS = "waits"
    RUNS = "runs"
    EVICTED = "evicted"  # asked to stop for another
    SHRINKS = "shrinks"  # goes on, and gives up members for another
    GROWS = "grows"  # gets members
    REFUSED = "refused"
    ABSENT = "absent"  # not there: not submitted, or ended


@dataclass(frozen=True, slots=True)
class Course:
    """What cycles at one instant came to, all together.

    `holds` are the new ones that still stand in the end. `reasons` by shape are the last that were made,
    of shapes that still wait. Not `complete`: the bound on cycles was met before the fixed point, or all of a
    shape went that the snapshot shows of it, while there are more.
    """

    placements: tuple[Placement, ...] = ()
    evictions: tuple[Eviction, ...] = ()
    holds: tuple[HoldView, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    reasons: Mapping[str, ShapeReasons] = field(default_factory=dict)
    workload_reasons: Mapping[int, tuple[Reason, ...]] = field(default_factory=dict)
    after: Snapshot = field(default_factory=Snapshot)
    cycles: int = 0
    complete: bool = True
    growths: tuple[Growth, ...] = ()

    def fates(self) -> dict[int, Fate]:
        """attempt id → what becomes of it, of all that wait, run or have a place kept."""
        found = {head.attempt_id: Fate.WAITS for group in self.after.pending for head in group.heads}
        found.update(dict.fromkeys(self.after.holds, Fate.HELD))
        parts = {gone.member_id for one in self.evictions for gone in one.members}
        found.update((attempt, Fate.RUNS) for attempt in self.after.running if attempt not in parts)
        found.update((growth.attempt_id, Fate.GROWS) for growth in self.growths)
        found.update(
            (one.attempt_id, Fate.SHRINKS if one.members else Fate.EVICTED) for one in self.evictions
        )
        found.update((placement.attempt_id, Fate.STARTS) for placement in self.placements)
        found.update((refusal.attempt_id, Fate.REFUSED) for refusal in self.refusals)
        return found


@dataclass(frozen=True, slots=True)
class Changed:
    """An attempt whose fate the change decides."""

    attempt_id: int
    workload_id: int
    before: Fate
    after: Fate


@dataclass(frozen=True, slots=True)
class ReasonsChanged:
    """A shape that waits either way, for other reasons."""

    shape: Shape
    before: tuple[Reason, ...]
    after: tuple[Reason, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Both courses, and where they differ: attempts by id, shapes by key."""

    before: Course
    after: Course
    changed: tuple[Changed, ...]
    reasons: tuple[ReasonsChanged, ...]

    @property
    def complete(self) -> bool:
        """False where a bound was met, so that more might follow."""
        return self.before.complete and self.after.complete


def what_if(snapshot: Snapshot, policy: Policy, now: int, changes: Iterable[WhatIf]) -> Outcome:
    """What the next cycles would do with the changes, and without. Changes nothing.

    Raises KeyError for a node or tree that a change names and the snapshot does not have.
    """
    changed, then = changed_by(snapshot, policy, changes)
    before, after = run_course(snapshot, policy, now), run_course(changed, then, now)
    return Outcome(before, after, _changed(before, after), _other_reasons(before, after))


def changed_by(
    snapshot: Snapshot, policy: Policy, changes: Iterable[WhatIf]
) -> tuple[Snapshot, Policy]:
    """The snapshot and the policy with the changes made, in their order."""
    shapes: dict[str, Shape] = {}
    for change in changes:
        if isinstance(change, FollowPolicy):
            policy = change.policy
        elif isinstance(change, FollowTrees):
            snapshot, shapes = with_trees(snapshot, change.trees), {**shapes, **change.shapes}
        elif isinstance(change, FollowNodes):
            snapshot = with_nodes(snapshot, change.nodes)
        elif isinstance(change, EndAttempts):
            snapshot = without_attempts(snapshot, change.attempt_ids)
        else:
            snapshot = snapshot.with_(change)
    return (recounted(snapshot, policy, shapes) if shapes else snapshot), policy


def run_course(snapshot: Snapshot, policy: Policy, now: int, most: int = MAX_CYCLES) -> Course:
    """Cycles at one instant until one decides nothing more, `most` of them at most."""
    current = replace(snapshot, last_looked={})
    told = _Told()
    for number in range(1, most + 1):
        decisions = decide(current, policy, now)
        told.take(decisions)
        current = current.apply(decisions)
        if not decisions.changes_state and not decisions.stats.more:
            return told.course(current, number, complete=all(group.heads for group in current.pending))
    return told.course(current, most, complete=False)


class _Told:
    """What the cycles of a course decided so far."""

    def __init__(self) -> None:
        self.placements: list[Placement] = []
        self.evictions: list[Eviction] = []
        self.growths: list[Growth] = []
        self.holds: dict[int, HoldView] = {}
        self.refusals: list[Refusal] = []
        self.reasons: dict[str, ShapeReasons] = {}
        self.own: dict[int, tuple[Reason, ...]] = {}

    def take(self, decisions: Decisions) -> None:
        self.placements += decisions.placements
        self.evictions += decisions.evictions
        self.growths += decisions.growths
        self.refusals += decisions.refusals
        for dropped in decisions.dropped_holds:
            self.holds.pop(dropped.attempt_id, None)
        self.holds.update((hold.attempt_id, hold) for hold in decisions.holds)
        self.reasons.update(decisions.reasons)
        self.own = dict(decisions.workload_reasons)

    def course(self, after: Snapshot, cycles: int, complete: bool) -> Course:
        waiting = {group.shape.key for group in after.pending}
        standing = [hold for key, hold in self.holds.items() if key in after.holds]
        return Course(
            tuple(self.placements), tuple(self.evictions), tuple(standing), tuple(self.refusals),
            {key: found for key, found in self.reasons.items() if key in waiting}, self.own, after, cycles,
            complete, tuple(self.growths),
        )  # fmt: skip


def _changed(before: Course, after: Course) -> tuple[Changed, ...]:
    workloads = {**_workloads(before), **_workloads(after)}
    first, then = before.fates(), after.fates()
    return tuple(
        Changed(attempt, workloads[attempt], first.get(attempt, Fate.ABSENT), then.get(attempt, Fate.ABSENT))
        for attempt in sorted(first.keys() | then.keys())
        if first.get(attempt) != then.get(attempt)
    )


def _workloads(course: Course) -> dict[int, int]:
    after = course.after
    found = {head.attempt_id: head.workload_id for group in after.pending for head in group.heads}
    found.update((hold.attempt_id, hold.workload_id) for hold in after.holds.values())
    found.update((run.attempt_id, run.workload_id) for run in after.running.values())
    found.update((refusal.attempt_id, refusal.workload_id) for refusal in course.refusals)
    return found


def _other_reasons(before: Course, after: Course) -> tuple[ReasonsChanged, ...]:
    shapes = {group.shape.key: group.shape for group in after.after.pending}
    found = []
    for key in sorted(before.reasons.keys() & after.reasons.keys()):
        first, then = before.reasons[key].reasons, after.reasons[key].reasons
        if first != then:
            found.append(ReasonsChanged(shapes[key], first, then))
    return tuple(found)


__all__ = [
    "MAX_CYCLES",
    "AddDevices",
    "AddPending",
    "ChangeLimit",
    "Changed",
    "CordonNode",
    "Course",
    "EndAttempts",
    "Fate",
    "FollowPolicy",
    "FollowTrees",
    "Outcome",
    "ReasonsChanged",
    "WhatIf",
    "changed_by",
    "run_course",
    "what_if",
]

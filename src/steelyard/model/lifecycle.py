"""The one lifecycle table: what every phase means for quota, capacity and metering.

Metering states and the checks CK6 and CK7 are generated from this table, so that they can't drift
apart from what the loops do. A workload's phase is its current attempt's phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from steelyard.model.errors import ConflictError
from steelyard.model.units import DAY, MINUTE, SECOND


class Phase(StrEnum):
    """Where an attempt stands; total and exclusive."""

    HELD = "held"
    QUEUED = "queued"
    RESERVED = "reserved"
    STARTING = "starting"
    RUNNING = "running"
    SUSPENDED = "suspended"
    STOPPING = "stopping"
    RELEASING = "releasing"
    FINISHED = "finished"


class SubStage(StrEnum):
    """What the engine reports within `starting`."""

    PROVISION = "provision"
    IMAGE = "image"
    ENVIRONMENT = "environment"
    LAUNCH = "launch"


class Outcome(StrEnum):
    """How a finished attempt ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"
    TIMED_OUT = "timed-out"
    PREEMPTED = "preempted"
    LOST = "lost"
    RECLAIMED = "reclaimed"  # it used too little for too long


#: Outcomes after which the workload goes on with its next attempt and stays live.
REQUEUED_OUTCOMES = frozenset({Outcome.PREEMPTED})


class QuotaEffect(StrEnum):
    """Whether the phase is charged to queues and organisation."""

    NONE = "none"
    CHARGED = "charged"
    AS_DECLARED = "as-declared"


class CapacityEffect(StrEnum):
    """What the phase means for the devices."""

    NONE = "none"
    KEPT = "kept"  # for a preemptor while its victims stop; metered as idle.reserved
    HELD = "held"
    AS_DECLARED = "as-declared"
    NOT_OFFERED = "not-offered"  # ended, release not proven


@dataclass(frozen=True, slots=True)
class PhaseRule:
    """One row of the table. `timer` is how long the phase may last by default, `owner` who acts then."""

    phase: Phase
    stage_time: str | None  # the stage time that opens the phase
    metering: str | None  # the state of its holding segments; None: nothing is held
    quota: QuotaEffect
    capacity: CapacityEffect
    timer: int | None
    on_timer: str | None
    owner: str
    next: frozenset[Phase]


def _rule(
    phase: Phase,
    stage_time: str | None,
    metering: str | None,
    quota: QuotaEffect,
    capacity: CapacityEffect,
    timer: int | None,
    on_timer: str | None,
    owner: str,
    *following: Phase,
) -> PhaseRule:
    return PhaseRule(
        phase, stage_time, metering, quota, capacity, timer, on_timer, owner, frozenset(following)
    )


_P, _Q, _C = Phase, QuotaEffect, CapacityEffect

RULES: dict[Phase, PhaseRule] = {
    rule.phase: rule
    for rule in (
        _rule(_P.HELD, "submitted", None, _Q.NONE, _C.NONE, None, None, "submitter", _P.QUEUED, _P.FINISHED),
        _rule(
            _P.QUEUED,
            "eligible",
            None,
            _Q.NONE,
            _C.NONE,
            None,
            None,
            "schedule",
            _P.HELD,
            _P.RESERVED,
            _P.STARTING,
            _P.FINISHED,
        ),
        _rule(
            _P.RESERVED,
            "reserved",
            None,
            _Q.CHARGED,
            _C.KEPT,
            10 * MINUTE,
            "requeue",
            "schedule",
            _P.QUEUED,
            _P.STARTING,
            _P.FINISHED,
        ),
        _rule(
            _P.STARTING,
            "placed",
            "starting",
            _Q.CHARGED,
            _C.HELD,
            30 * MINUTE,
            "fail",
            "reconcile",
            _P.RUNNING,
            _P.STOPPING,
            _P.RELEASING,
        ),
        _rule(
            _P.RUNNING,
            "started",
            "running",
            _Q.CHARGED,
            _C.HELD,
            None,
            "stop",
            "reconcile",
            _P.SUSPENDED,
            _P.STOPPING,
            _P.RELEASING,
        ),
        _rule(
            _P.SUSPENDED,
            "suspended",
            "suspended",
            _Q.AS_DECLARED,
            _C.AS_DECLARED,
            7 * DAY,
            "stop",
            "reconcile",
            _P.RUNNING,
            _P.STOPPING,
            _P.RELEASING,
        ),
        _rule(
            _P.STOPPING,
            "stopping",
            "stopping",
            _Q.CHARGED,
            _C.HELD,
            30 * SECOND,
            "kill",
            "reconcile",
            _P.RELEASING,
        ),
        _rule(
            _P.RELEASING,
            "ended",
            "releasing",
            _Q.CHARGED,
            _C.NOT_OFFERED,
            2 * MINUTE,
            "quarantine",
            "release",
            _P.FINISHED,
        ),
        _rule(_P.FINISHED, "release_confirmed", None, _Q.NONE, _C.NONE, None, None, "nobody"),
    )
}

#: Phases in which the attempt is charged to its queue and organisation.
CHARGED_PHASES = frozenset(p for p, r in RULES.items() if r.quota is QuotaEffect.CHARGED) | {Phase.SUSPENDED}
#: Phases in which devices are held: each has a metering state.
HOLDING_PHASES = frozenset(p for p, r in RULES.items() if r.metering is not None)
WAITING_PHASES = frozenset({Phase.HELD, Phase.QUEUED, Phase.RESERVED})
LIVE_PHASES = frozenset(Phase) - {Phase.FINISHED}

#: Stage times in the order in which they can be reached. They tile an attempt.
STAGE_TIMES = (
    "submitted",
    "eligible",
    "reserved",
    "placed",
    "started",
    "ready",
    "stopping",
    "ended",
    "release_confirmed",
)


def check_transition(before: Phase, after: Phase) -> None:
    """Raises ConflictError unless the table allows the step."""
    if after not in RULES[before].next:
        raise ConflictError("transition-not-allowed", before=before.value, after=after.value)


def holding_tiles(times: dict[str, int | None], until: int) -> list[tuple[str, int, int]]:
    """(metering state, t0, t1) intervals that tile `[placed, min(release_confirmed, until))`.

    `times` are the attempt's stage times. A stage that was never reached yields no interval; empty
    intervals are left out. The intervals never overlap and leave no gap.
    """
    placed = times.get("placed")
    if placed is None:
        return []
    confirmed = times.get("release_confirmed")
    end = until if confirmed is None else min(confirmed, until)
    marks = [("starting", placed)]
    for state, stage in (("running", "started"), ("stopping", "stopping"), ("releasing", "ended")):
        at = times.get(stage)
        if at is not None:
            marks.append((state, max(at, marks[-1][1])))
    tiles = []
    for index, (state, at) in enumerate(marks):
        following = marks[index + 1][1] if index + 1 < len(marks) else end
        if min(following, end) > at:
            tiles.append((state, at, min(following, end)))
    return tiles

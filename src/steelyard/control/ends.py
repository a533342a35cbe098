"""How an attempt's members ended: into their rows, and what its own row and leaf are to say of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steelyard.control.attempts import isolation_of
from steelyard.control.context import step
from steelyard.evidence.leaf import Transition
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.services.departures import DRAINED
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.services.verdicts import DEVICE_UNHEALTHY
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_STOPPED = {
    "cancelled": Outcome.CANCELLED,
    "preempted": Outcome.PREEMPTED,
    DRAINED: Outcome.PREEMPTED,
    DEVICE_UNHEALTHY: Outcome.FAILED,
    "time-limit": Outcome.TIMED_OUT,
    "idle": Outcome.RECLAIMED,
    "member-failed": Outcome.FAILED,
    "start-timeout": Outcome.FAILED,
}


@dataclass(frozen=True, slots=True)
class Ended:
    """What is booked of an end: the steps up to `releasing`, columns of the attempt, detail of the leaf."""

    transitions: tuple[Transition, ...]
    values: Row
    detail: Row


def outcome_of(attempt: LiveAttempt) -> Outcome:
    """How an attempt ended, from what its members left and why it was stopped."""
    seen = [m.seen for m in attempt.staying if m.seen is not None]
    clean = all(s.failure is None and s.exit_code == 0 and s.exit_signal is None for s in seen)
    if clean and len(seen) == len(attempt.staying) and not any(s.stop_requested for s in seen):
        return Outcome.SUCCEEDED
    if any(s.timed_out for s in seen):
        return Outcome.TIMED_OUT
    if attempt.stop_reason in ("preempted", DRAINED) and attempt.cancel_requested_at is not None:
        return Outcome.CANCELLED  # it does not come back
    if attempt.stop_reason in _STOPPED:
        return _STOPPED[attempt.stop_reason]
    if any(s.failure in ("node-lost", "lost", "device-lost") for s in seen):
        return Outcome.LOST
    if any(s.exit_code is None and s.exit_signal is None and s.failure is None for s in seen):
        return Outcome.LOST
    return Outcome.FAILED


def note_end(unit: Unit, attempt: LiveAttempt, now: int, started: int | None) -> Ended:
    """Every member ended: their rows, the times and the outcome. Moves nothing yet."""
    before = attempt.phase
    placed = attempt.times["placed"] or now
    transitions: list[Transition] = []
    if attempt.times.get("started") is None and started is not None and before is Phase.STARTING:
        attempt.times["started"] = started
        transitions.append(step(before, "running", started))
        before = Phase.RUNNING
    ends = [m.seen.ended_at for m in attempt.members if m.seen is not None and m.seen.ended_at is not None]
    times = attempt.times
    floor = max(placed, times.get("started") or 0, times.get("stopping") or 0, attempt.left_at)
    ended = min(max(max(ends, default=now), floor), now)
    attempt.times["ended"] = ended
    for member in attempt.members:
        member_ended(unit, member)
    attempt.outcome = outcome_of(attempt)
    transitions.append(step(before, "releasing", ended))
    values = {"started": attempt.times.get("started"), "ended": ended, "outcome": attempt.outcome.value}
    started_now = isolation_of(attempt) if len(transitions) > 1 else {}
    return Ended(tuple(transitions), values, {"members": _ends(attempt), **started_now})


def member_ended(unit: Unit, member: LiveMember) -> None:
    """How a member ended, into its row."""
    seen = member.seen
    if seen is None:
        return
    member.phase = "ended"
    member.started_at, member.ended_at = seen.started_at, seen.ended_at
    member.exit_code, member.exit_signal, member.failure = seen.exit_code, seen.exit_signal, seen.failure
    known: dict[str, Any] = {} if seen.limits is None else {"limits": seen.limits}
    unit.update(
        t.member, {"id": member.id}, phase="ended", started_at=seen.started_at, ended_at=seen.ended_at,
        exit_code=seen.exit_code, exit_signal=seen.exit_signal, failure=seen.failure, **known,
    )  # fmt: skip


def _ends(attempt: LiveAttempt) -> list[Row]:
    return [
        {"id": m.text_id, "exit_code": m.exit_code, "exit_signal": m.exit_signal, "failure": m.failure}
        for m in attempt.members
    ]

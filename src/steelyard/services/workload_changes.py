"""Units of what people do to a workload that is there: withdraw, cancel, retry, hold, release.

Each builds on the row as it was read: its version and its stream head. A row that changed meanwhile
makes the unit stale, and the use case reads again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from steelyard.evidence.leaf import ActorRef, Head, LeafDraft, Origin, Transition
from steelyard.model.errors import ConflictError
from steelyard.model.ids import IdSource, render
from steelyard.model.lifecycle import Outcome, Phase, check_transition
from steelyard.services.submission import add_attempt
from steelyard.services.verdicts import withdrawn_json
from steelyard.store import tables as t
from steelyard.store.scoped import Record
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

#: Outcomes after which the owner may ask for another attempt.
RETRIED = frozenset(Outcome) - {Outcome.SUCCEEDED, Outcome.PREEMPTED}
#: Phases which a workload leaves without anything to stop.
WITHDRAWN_FROM = frozenset({Phase.HELD, Phase.QUEUED})


def _leaf(
    unit: Unit,
    row: Record,
    carrier: Row,
    action: str,
    transitions: Sequence[Transition] = (),
    *,
    reason_code: str | None = None,
    origin: Origin | None = None,
    extra: dict[str, Any] | None = None,
) -> None:
    draft = LeafDraft(
        action=action,
        object_kind="workload",
        object_id=render("workload", row["id"]),
        version_before=row["version"],
        version_after=row["version"] + 1,
        reason_code=reason_code,
        transitions=tuple(transitions),
        project=row["project"],
        origin=origin,
        extra=extra,
    )
    unit.leaf(draft, carrier, Head(row["head_n"], row["head_seq"], bytes(row["head_hash"])))


def _change(unit: Unit, row: Record, **values: Any) -> Row:
    where = {"id": row["id"], "version": row["version"]}
    return unit.update(t.workload, where, version=row["version"] + 1, **values)


def _change_attempt(unit: Unit, row: Record, **values: Any) -> None:
    where = {"id": row["attempt_id"], "version": row["attempt_version"]}
    unit.update(t.attempt, where, version=row["attempt_version"] + 1, **values)


def withdraw_unit(
    actor: ActorRef, row: Record, waits: Sequence[Row], now: int, origin: Origin | None = None
) -> Unit:
    """A workload that waits leaves: nothing is held, so nothing needs to be released."""
    unit = Unit(actor)
    carrier = _change(
        unit,
        row,
        phase=Phase.FINISHED.value,
        outcome=Outcome.WITHDRAWN.value,
        finished_at=now,
        cancel_requested_at=now,
    )
    _change_attempt(
        unit,
        row,
        phase=Phase.FINISHED.value,
        outcome=Outcome.WITHDRAWN.value,
        ended=now,
        release_confirmed=now,
        verdict_json=withdrawn_json(),
    )
    for wait in waits:
        unit.insert(t.wait_slice, **wait)
    step = Transition(at=now, from_=row["phase"], to=Phase.FINISHED.value)
    _leaf(unit, row, carrier, "workload.withdraw", (step,), origin=origin)
    return unit


def cancel_unit(actor: ActorRef, row: Record, now: int, origin: Origin | None = None) -> Unit:
    """A workload that has or is kept something: noted here, stopped by the control loop."""
    unit = Unit(actor)
    carrier = _change(unit, row, cancel_requested_at=now, cancel_reason=Outcome.CANCELLED.value)
    _leaf(unit, row, carrier, "workload.cancel-requested", origin=origin)
    return unit


def activate(unit: Unit, row: Record, now: int, origin: Origin | None = None) -> None:
    """A workload that stood by is wanted: its place is its own from now on."""
    carrier = _change(unit, row, activated_at=now)
    _leaf(unit, row, carrier, "workload.activate", origin=origin)


def note_scale(unit: Unit, row: Record, said: dict[str, Any], origin: Origin | None = None) -> None:
    """What became of a service, on its first workload: in that one's leaf where the unit has one of it."""
    name = render("workload", row["id"])
    for draft, _, _ in unit.drafts:
        if draft.object_id == name:
            draft.extra = {**(draft.extra or {}), "scale": said}
            return
    _leaf(unit, row, _change(unit, row), "workload.scale", origin=origin, extra=said)


def retry_unit(ids: IdSource, actor: ActorRef, row: Record, now: int, origin: Origin | None = None) -> Unit:
    """The next attempt of a finished workload; its first submit time stays.

    Raises ConflictError for a workload that is not finished, or that succeeded.
    """
    if row["phase"] != Phase.FINISHED or row["outcome"] not in RETRIED:
        raise ConflictError("retry-not-allowed", phase=row["phase"], outcome=row["outcome"])
    unit = Unit(actor)
    number = row["attempt"] + 1
    carrier = _change(
        unit,
        row,
        phase=Phase.QUEUED.value,
        outcome=None,
        attempt=number,
        finished_at=None,
        cancel_requested_at=None,
        cancel_reason=None,
    )
    attempt_id = ids.next()
    add_attempt(unit, attempt_id, row, number, Phase.QUEUED, now)
    step = Transition(at=now, from_=None, to=Phase.QUEUED.value)
    extra: dict[str, str | int | None] = {"attempt": number, "attempt_id": render("attempt", attempt_id)}
    _leaf(unit, row, carrier, "workload.retry", (step,), origin=origin, extra=extra)
    return unit


def hold_unit(
    actor: ActorRef, row: Record, waits: Sequence[Row], now: int, origin: Origin | None = None
) -> Unit:
    """A waiting workload is not looked at until its owner releases it."""
    return _move(actor, row, Phase.HELD, None, waits, now, "workload.hold", origin)


def release_unit(
    actor: ActorRef, row: Record, waits: Sequence[Row], now: int, origin: Origin | None = None
) -> Unit:
    """A held workload waits again."""
    return _move(actor, row, Phase.QUEUED, now, waits, now, "workload.release", origin)


def _move(
    actor: ActorRef,
    row: Record,
    after: Phase,
    eligible: int | None,
    waits: Sequence[Row],
    now: int,
    action: str,
    origin: Origin | None,
) -> Unit:
    check_transition(Phase(row["phase"]), after)
    unit = Unit(actor)
    carrier = _change(unit, row, phase=after.value)
    _change_attempt(unit, row, phase=after.value, eligible=eligible)
    for wait in waits:
        unit.insert(t.wait_slice, **wait)
    step = Transition(at=now, from_=row["phase"], to=after.value)
    _leaf(unit, row, carrier, action, (step,), origin=origin)
    return unit

"""An eviction as it is booked: its row, its leaf, and what the victim is told.

A workload that declares that it writes checkpoints is asked for one first and given its time for that; TERM
follows when the time is over, whatever became of it. What it has lost is known where the engine says up to
when its work is saved; else it is at most what it ran.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from steelyard.control.commands import stop_attempt
from steelyard.control.context import Context
from steelyard.control.leaving import ask_to_leave
from steelyard.model.ids import render
from steelyard.model.units import HOUR
from steelyard.scheduling import Eviction
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode


def book_evictions(
    context: Context, unit: Unit, cycle_id: int, evictions: tuple[Eviction, ...], now: int
) -> None:
    """All evictions of a cycle. What a preemptor asks for is noted with the first that is made for it."""
    counted: set[int] = set()
    for eviction in evictions:
        number = eviction.preemptor_attempt_id
        is_first = number is not None and number not in counted
        if number is not None:
            counted.add(number)
        _book(context, unit, cycle_id, eviction, is_first, now)
    _remember(context, evictions, now)


def _remember(context: Context, evictions: tuple[Eviction, ...], now: int) -> None:
    """For the budgets of the queues; what is older than an hour no longer counts."""
    evicted = context.state.evicted
    for eviction in evictions:
        known = evicted.get(eviction.preemptor_queue, ())
        evicted[eviction.preemptor_queue] = (*(at for at in known if at > now - HOUR), now)


def _book(
    context: Context, unit: Unit, cycle_id: int, eviction: Eviction, is_first: bool, now: int
) -> None:
    victim = context.state.attempts[eviction.attempt_id]
    number = eviction.preemptor_attempt_id
    preemptor = None if number is None else context.state.attempts.get(number)
    leaving = _leaving(victim, eviction)
    requested = _requested(preemptor) if is_first and preemptor is not None else None
    row = _row(victim, leaving, eviction, requested, now)
    unit.insert(t.eviction, policy_version=context.state.policy.version, cycle_id=cycle_id, **row)
    detail = _detail(victim, leaving, eviction, now)
    detail["cycle"] = render("cycle", cycle_id)
    detail["same_project"] = preemptor is not None and preemptor.project == victim.project
    if not leaving:
        stop_attempt(context, unit, victim, now, "preempted", "workload.evict", detail)
        return
    detail["members"] = [_name(member) for member in leaving]
    detail["goes_on_with"] = len(victim.staying) - len(leaving)
    ask_to_leave(context, unit, victim, leaving, now, detail)


def _row(
    victim: LiveAttempt, leaving: list[LiveMember], eviction: Eviction,
    requested: Mapping[str, int] | None, now: int,
) -> Row:  # fmt: skip
    """What stands in the table of evictions. Of members that leave, it is that of the first."""
    saved = saved_at(leaving or victim.members)
    return {
        "attempt_id": leaving[0].id if leaving else victim.attempt_id,
        "workload_id": victim.workload_id,
        "preemptor_id": eviction.preemptor_workload_id,
        "preemptor_attempt_id": eviction.preemptor_attempt_id,
        "preemptor_queue": eviction.preemptor_queue,
        "preemptor_priority": eviction.preemptor_priority,
        "rule": eviction.rule,
        "at": now,
        "queue": eviction.queue,
        "priority": eviction.priority,
        "quantity_json": _json(held_by(leaving or victim.members)),
        "requested_json": None if requested is None else _json(requested),
        "shares_json": None if eviction.shares is None else _json(eviction.shares),
        "limit_json": None if eviction.limit is None else _json(eviction.limit),
        "saved_at": saved,
        "lost_time": lost_since(victim, saved, now),
        "shrunk_id": victim.attempt_id if leaving else None,
        "members_json": _json([_name(member) for member in leaving]) if leaving else None,
        "stay": len(victim.staying) - len(leaving) if leaving else None,
    }


def _detail(victim: LiveAttempt, leaving: list[LiveMember], eviction: Eviction, now: int) -> Row:
    """What its leaf says, but for what only the cycle and the preemptor know."""
    saved = saved_at(leaving or victim.members)
    detail: Row = {
        "preemptor": _shown("workload", eviction.preemptor_workload_id),
        "preemptor_attempt": _shown("attempt", eviction.preemptor_attempt_id),
        "preemptor_queue": eviction.preemptor_queue,
        "preemptor_priority": eviction.preemptor_priority,
        "rule": eviction.rule,
        "queue": eviction.queue,
        "priority": eviction.priority,
        "quantity": held_by(leaving or victim.members),
        "ran": lost_since(victim, None, now),
        "lost": lost_since(victim, saved, now),
        "saved_at": saved,
        "checkpoint": victim.spec.checkpoint,
        "goes_to": victim.queue,
    }
    for name, part in (("shares", eviction.shares), ("limit", eviction.limit)):
        if part is not None:
            detail[name] = msgspec.to_builtins(part)
    return detail


def _json(value: object) -> str:
    return _encode(msgspec.to_builtins(value)).decode()


def _leaving(victim: LiveAttempt, eviction: Eviction) -> list[LiveMember]:
    by_id = {member.id: member for member in victim.members}
    return [by_id[gone.member_id] for gone in eviction.members]


def _name(member: LiveMember) -> Row:
    return {"id": member.text_id, "role": member.role, "index": member.index}


def _shown(kind: str, number: int | None) -> str | None:
    return None if number is None else render(kind, number)


def held_by(members: list[LiveMember]) -> dict[str, int]:
    """Quantity by class that members have."""
    found: dict[str, int] = {}
    for member in members:
        for a in member.allocations:
            found[a.device_class.value] = found.get(a.device_class.value, 0) + a.quantity
    return found


def _requested(attempt: LiveAttempt) -> Mapping[str, int]:
    return {device_class.value: amount for device_class, amount in attempt.shape.totals().items() if amount}


def saved_at(members: list[LiveMember]) -> int | None:
    """Up to when the work of every member is saved; None where that is not known of one of them."""
    seen = [None if member.seen is None else member.seen.saved_at for member in members]
    known = [at for at in seen if at is not None]
    return min(known) if known and len(known) == len(seen) else None


def lost_since(attempt: LiveAttempt, saved: int | None, now: int) -> int:
    """µs of running that have to be done again: since what is saved, else all of it at most."""
    started = attempt.times.get("started")
    if not started:
        return 0
    return max(0, now - max(started, saved or 0))


def settle_eviction(unit: Unit, attempt: LiveAttempt, detail: Row) -> None:
    """What an evicted attempt had saved by its end, into its row and its leaf."""
    saved, ended = saved_at(attempt.staying), attempt.times.get("ended")
    if attempt.stop_reason != "preempted" or saved is None or ended is None:
        return
    lost = lost_since(attempt, saved, ended)
    unit.update(t.eviction, {"attempt_id": attempt.attempt_id}, lost_time=lost, saved_at=saved)
    detail |= {"saved_at": saved, "lost": lost}

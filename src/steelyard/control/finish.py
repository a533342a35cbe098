"""The end of an attempt: allocations closed, usage segments, receipt, verdict, and what follows it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from steelyard.control.agents import Forget
from steelyard.control.context import Context, step
from steelyard.control.ends import Ended, outcome_of
from steelyard.control.evictions import settle_eviction
from steelyard.control.quarantine import open_release, reasons_of, seen_of
from steelyard.control.retry import avoided, follow_up
from steelyard.control.verdict import speaker, verdict_on
from steelyard.engines.port import ReleaseProbe
from steelyard.evidence.leaf import Transition
from steelyard.evidence.usage import AttemptFacts, EndFacts, holding_rows
from steelyard.model.failures import Verdict
from steelyard.model.ids import render
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.resources import ShareKind
from steelyard.model.units import SECOND
from steelyard.services.evaluations import record_evaluation
from steelyard.services.live_records import LiveAllocation, LiveAttempt, LiveMember
from steelyard.services.verdicts import failure_columns, leaf_view
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
BACKOFF = SECOND  # after the n-th failure of ours: 2ⁿ⁻¹ of it
MAX_BACKOFF = 3600 * SECOND
BOOKED = Ended((), {}, {})  # an end that was booked before


def finish(
    context: Context,
    unit: Unit,
    attempt: LiveAttempt,
    now: int,
    release: str,
    probes: Mapping[str, ReleaseProbe],
    ledger: list[Row],
    ended: Ended = BOOKED,
) -> None:
    """Close the attempt: allocations, usage segments, receipt, verdict, and what follows it.

    `release`: confirmed, not-observable or quarantined; `ledger`: where the ledger does not agree;
    `ended`: what of its end is not booked yet.
    """
    outcome = attempt.outcome or outcome_of(attempt)
    attempt.times["release_confirmed"] = now
    verdict = verdict_on(attempt, outcome, context.state.devices)
    follows = follow_up(
        outcome, verdict, attempt.spec.restart, attempt.number, attempt.spec.max_attempts,
        cancelled=attempt.cancel_requested_at is not None,
    )  # fmt: skip
    reasons = reasons_of(attempt, probes, ledger) if release == "quarantined" else []
    receipt = receipt_of(unit, attempt, now, release, probes, reasons)
    parts = attempt.parts()
    _give_back(context, unit, attempt, now, release, reasons, probes)
    failure = verdict if verdict is not None and verdict.is_failure else None
    end = EndFacts(
        outcome.value,
        None if failure is None else failure.stage,
        None if failure is None else failure.code,
        release,
    )
    for row in segments(context, attempt, attempt.allocations(), now, end):
        unit.insert(t.holding_segment, **row)
    context.charge(attempt.charges, -1)
    values = {**ended.values, "release_confirmed": now, "outcome": outcome.value, **_judged(verdict)}
    detail: Row = {**ended.detail, "outcome": outcome.value, "receipt": receipt, "next": follows}
    if verdict is not None:
        detail["verdict"] = leaf_view(verdict)
    settle_eviction(unit, attempt, detail)
    moved = (*ended.transitions, step(Phase.RELEASING, "finished", now, outcome.value))
    if follows is None:
        _leave(context, unit, attempt, now, outcome, verdict, values, detail, moved)
    else:
        avoid = avoided(attempt.avoid, verdict, speaker(attempt))
        _requeue(context, unit, attempt, now, follows, values, detail, moved, avoid)
    if not reasons:  # what is in quarantine is still to be looked at
        context.after_commit.append(lambda: forget(context, parts))
    context.changed = True


def _give_back(
    context: Context, unit: Unit, attempt: LiveAttempt, now: int, release: str, reasons: list[Row],
    probes: Mapping[str, ReleaseProbe],
) -> None:  # fmt: skip
    for part in attempt.parts():
        members = attempt.part_of(part)
        close(context, unit, part, members, now, release)
        if reasons:
            open_release(context, unit, attempt, part, members, now, reasons, seen_of(probes.values()))


def _judged(verdict: Verdict | None) -> Row:
    """An attempt's columns for its verdict."""
    body = None if verdict is None else _encode(verdict).decode()
    return {"verdict_json": body, **failure_columns(verdict)}


def _leave(
    context: Context,
    unit: Unit,
    attempt: LiveAttempt,
    now: int,
    outcome: Outcome,
    verdict: Verdict | None,
    values: Row,
    detail: Row,
    moved: tuple[Transition, ...],
) -> None:
    """The workload ends with this attempt."""
    if attempt.spec.evaluation is not None:
        detail["evaluation"] = record_evaluation(
            unit, attempt.workload_id, attempt.attempt_id, attempt.spec.evaluation, attempt.result, now
        )
    workload: Row = {"outcome": outcome.value, "finished_at": now}
    carrier = context.move(unit, attempt, Phase.FINISHED, values, workload)
    reason = None if verdict is None else verdict.code
    context.leaf(unit, attempt, carrier, "workload.finish", moved, detail, reason)
    context.state.remove(attempt.workload_id)


def close(
    context: Context, unit: Unit, part: int, members: list[LiveMember], now: int, release: str
) -> None:
    """Give back what the members of a part hold; what was not proven free goes into quarantine."""
    allocations = [a for member in members for a in member.allocations]
    for a in allocations:
        unit.update(t.allocation, {"id": a.id}, null=("t1",), t1=now)
        device = context.state.touch(a.device_id)
        device.held -= a.quantity
        if not device.held:
            device.share_kind = ShareKind.EXCLUSIVE
        context.meter.release(a.device_id, a.quantity, now)
    if release == "quarantined":
        _keep_back(context, unit, part, allocations, now)


def _keep_back(
    context: Context, unit: Unit, part: int, allocations: list[LiveAllocation], now: int
) -> None:
    """Into quarantine, once a device: members of a gang may share one."""
    quantities: dict[int, int] = {}
    for a in allocations:
        quantities[a.device_id] = quantities.get(a.device_id, 0) + a.quantity
    for device_id, quantity in quantities.items():
        context.state.touch(device_id).quarantined += quantity
        context.meter.quarantine(device_id, quantity, render("attempt", part), now)
        unit.insert(
            t.quarantine,
            device_id=device_id,
            attempt_id=part,
            quantity=quantity,
            reason="release-unconfirmed",
            t0=now,
            t1=None,
        )


def segments(
    context: Context, attempt: LiveAttempt, allocations: list[LiveAllocation], now: int, end: EndFacts
) -> list[Row]:
    """Usage of what an attempt held until now."""
    facts = AttemptFacts(
        attempt.workload_id,
        attempt.attempt_id,
        attempt.kind,
        attempt.queue,
        attempt.priority,
        attempt.submitter,
        attempt.namespace,
        attempt.project,
        attempt.simulated,
    )
    return holding_rows(facts, allocations, attempt.times, now, context.org, end)


def receipt_of(
    unit: Unit,
    attempt: LiveAttempt,
    now: int,
    release: str,
    probes: Mapping[str, ReleaseProbe],
    reasons: list[Row],
    member: LiveMember | None = None,
) -> Row:
    """The receipt of an attempt, or of a member that leaves it, into its row; what a leaf says of it."""
    part = attempt.attempt_id if member is None else member.id
    seen = seen_of(probes.values())
    counts = _counts(probes)
    ledger = "differs" if any(reason["code"] == "release.ledger-differs" for reason in reasons) else "closed"
    found = _found(probes)
    unit.upsert(
        t.receipt,
        ("attempt_id",),
        attempt_id=part,
        state=release,
        confirmed_at=now,
        control="ended",
        ledger=ledger,
        probe=found,
        checks_json=_encode(seen["checks"]).decode(),
        residue_json=_encode(seen["residue"]).decode(),
        probed_at=seen["at"],
        counts_json=_encode(counts).decode(),
        reasons_json=_encode(reasons).decode(),
    )
    return {
        "attempt": render("attempt", attempt.attempt_id),
        "state": release,
        "control": "ended",
        "ledger": ledger,
        "probe": found,
        "requested": attempt.times.get("stopping") if member is None else member.leaving_at,
        "ended": attempt.times.get("ended") if member is None else member.ended_at,
        "probed": seen["at"],
        "confirmed": now,
        "counts": counts,
    }


def _found(probes: Mapping[str, ReleaseProbe]) -> str:
    """What the live probe says of everything together."""
    seen = [probe.free for probe in probes.values()]
    if not seen or (None in seen and False not in seen):
        return "unknown"
    return "free" if all(seen) else "occupied"


def _counts(probes: Mapping[str, ReleaseProbe]) -> dict[str, int]:
    """What was ended and removed after the end, summed over the clusters."""
    counts: dict[str, int] = {}
    for probe in probes.values():
        for what, number in probe.cleared:
            counts[what] = counts.get(what, 0) + number
    return counts


def _requeue(
    context: Context,
    unit: Unit,
    attempt: LiveAttempt,
    now: int,
    why: str,
    values: Row,
    detail: Row,
    moved: tuple[Transition, ...],
    avoid: tuple[int, ...],
) -> None:
    """The workload goes on with its next attempt; its first submit time stays."""
    unit.update(
        t.attempt,
        {"id": attempt.attempt_id, "version": attempt.attempt_version},
        phase="finished",
        version=attempt.attempt_version + 1,
        **values,
    )
    context.state.remove(attempt.workload_id)
    delay = 0 if why == "preempted" else min(BACKOFF << (attempt.number - 1), MAX_BACKOFF)
    fresh = attempt.following(context.store.ids.next(), now, now + delay if delay else 0, avoid)
    carrier = unit.update(
        t.workload,
        {"id": attempt.workload_id, "version": attempt.version},
        phase="queued",
        version=fresh.version,
        attempt=fresh.number,
    )
    unit.insert(
        t.attempt,
        id=fresh.attempt_id,
        workload_id=fresh.workload_id,
        number=fresh.number,
        phase="queued",
        queue=fresh.queue,
        priority=fresh.priority,
        submitted=now,
        eligible=now,
        not_before=fresh.not_before or None,
        avoid_json=_encode(avoid).decode() if avoid else None,
        version=1,
    )
    moved = (*moved, step(Phase.FINISHED, "queued", now))
    context.leaf(unit, fresh, carrier, "workload.requeue", moved, detail, why)
    context.state.add(fresh)


def forget(context: Context, parts: Mapping[int, Iterable[str]]) -> None:
    """Engines may drop their notes of these, by the clusters where they were."""
    for part, clusters in parts.items():
        for cluster in sorted(clusters):
            agent = context.agents.get(cluster)
            if agent is not None:
                agent.send(Forget((render("attempt", part),)))

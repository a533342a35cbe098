"""The release loop: what ended is free only when three signals agree.

Control plane (every member was seen to end), ledger (its open allocations are exactly what the meter
holds for it) and live probe (the machine shows nothing of it) must agree; then there is a receipt.
Else, when the phase's timer is over, the quantity is quarantined with a reason and not offered.
"""

from __future__ import annotations

import msgspec

from steelyard.control.agents import Forget, Probe
from steelyard.control.context import Context, step
from steelyard.control.verdict import judge
from steelyard.engines.port import MemberObservation, MemberPhase, ReleaseProbe
from steelyard.evidence.leaf import Transition
from steelyard.evidence.usage import AttemptFacts, EndFacts, holding_rows
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import RULES, Outcome, Phase
from steelyard.model.units import SECOND
from steelyard.model.workloads import RestartPolicy, Verdict
from steelyard.services.live_records import LiveAllocation, LiveAttempt
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
PROBE_AGAIN = SECOND // 4
BACKOFF = SECOND  # after the n-th failure of ours: 2ⁿ⁻¹ of it
MAX_BACKOFF = 3600 * SECOND
_STOPPED = {
    "cancelled": Outcome.CANCELLED,
    "preempted": Outcome.PREEMPTED,
    "time-limit": Outcome.TIMED_OUT,
    "member-failed": Outcome.FAILED,
    "start-timeout": Outcome.FAILED,
}


def begin_release(context: Context, unit: Unit, attempt: LiveAttempt, now: int, started: int | None) -> None:
    """Every member ended: book how, and ask the live probe."""
    before = attempt.phase
    placed = attempt.times["placed"] or now
    transitions: list[Transition] = []
    if attempt.times.get("started") is None and started is not None and before is Phase.STARTING:
        attempt.times["started"] = started
        transitions.append(step(before, "running", started))
        before = Phase.RUNNING
    ends = [m.seen.ended_at for m in attempt.members if m.seen is not None and m.seen.ended_at is not None]
    floor = max(placed, attempt.times.get("started") or 0, attempt.times.get("stopping") or 0)
    ended = min(max(max(ends, default=now), floor), now)
    attempt.times["ended"] = ended
    for member in attempt.members:
        seen = member.seen
        if seen is not None:
            member.phase = "ended"
            member.started_at, member.ended_at = seen.started_at, seen.ended_at
            member.exit_code, member.exit_signal, member.failure = (
                seen.exit_code,
                seen.exit_signal,
                seen.failure,
            )
            unit.update(
                t.member,
                {"id": member.id},
                phase="ended",
                started_at=seen.started_at,
                ended_at=seen.ended_at,
                exit_code=seen.exit_code,
                exit_signal=seen.exit_signal,
                failure=seen.failure,
            )
    outcome = attempt.outcome = outcome_of(attempt)
    transitions.append(step(before, "releasing", ended))
    values = {"started": attempt.times.get("started"), "ended": ended, "outcome": outcome.value}
    carrier = context.move(unit, attempt, Phase.RELEASING, values)
    context.leaf(unit, attempt, carrier, "workload.end", tuple(transitions), {"members": _ends(attempt)})
    context.after_commit.append(lambda: send_probe(context, attempt))


def outcome_of(attempt: LiveAttempt) -> Outcome:
    """How an attempt ended, from what its members left and why it was stopped."""
    seen = [m.seen for m in attempt.members if m.seen is not None]
    clean = all(s.failure is None and s.exit_code == 0 and s.exit_signal is None for s in seen)
    if clean and len(seen) == len(attempt.members) and not any(s.stop_requested for s in seen):
        return Outcome.SUCCEEDED
    if any(s.timed_out for s in seen):
        return Outcome.TIMED_OUT
    if attempt.stop_reason in _STOPPED:
        return _STOPPED[attempt.stop_reason]
    if any(s.failure in ("node-lost", "lost", "device-lost") for s in seen):
        return Outcome.LOST
    if any(s.exit_code is None and s.exit_signal is None and s.failure is None for s in seen):
        return Outcome.LOST
    return Outcome.FAILED


def send_probe(context: Context, attempt: LiveAttempt) -> None:
    """Ask the live probe of each cluster."""
    attempt.probe_at = context.store.now()
    for cluster in sorted(attempt.clusters):
        agent = context.agents.get(cluster)
        if agent is not None:
            agent.send(Probe((render("attempt", attempt.attempt_id),)))


class Releaser:
    """Collects probes and confirms, or quarantines."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._probes: dict[int, dict[str, ReleaseProbe]] = {}

    def probed(self, cluster: str, probe: ReleaseProbe) -> None:
        """Take in what the live probe of a cluster found."""
        try:
            attempt_id = parse("attempt", probe.attempt_id)
        except InvalidError:
            return
        if attempt_id in self._context.state.attempts:
            self._probes.setdefault(attempt_id, {})[cluster] = probe

    def run(self, limit: int = 200) -> bool:
        """Confirm what is free; True when more is waiting."""
        context, now = self._context, self._context.now()
        unit = context.unit()
        done = 0
        for attempt_id in sorted(self._probes):
            if done >= limit:
                break
            probes = self._probes[attempt_id]
            attempt = context.state.attempts.get(attempt_id)
            if attempt is None or attempt.phase is not Phase.RELEASING:
                del self._probes[attempt_id]
            elif attempt.clusters <= probes.keys():
                del self._probes[attempt_id]
                done += self._judge(unit, attempt, list(probes.values()), now)
        self._timers(unit, now)
        context.commit(unit, now)
        return bool(self._probes)

    def _judge(self, unit: Unit, attempt: LiveAttempt, probes: list[ReleaseProbe], now: int) -> int:
        if any(probe.free is False for probe in probes) or not self._ledger_agrees(attempt):
            attempt.last_probes = tuple(probes)
            return 0
        state = "confirmed" if all(probe.free for probe in probes) else "not-observable"
        finish(self._context, unit, attempt, now, state, probes)
        return 1

    def _ledger_agrees(self, attempt: LiveAttempt) -> bool:
        state = self._context.state
        allocations = [a for member in attempt.members for a in member.allocations]
        return all(state.devices[a.device_id].held >= a.quantity for a in allocations)

    def _timers(self, unit: Unit, now: int) -> None:
        bound = RULES[Phase.RELEASING].timer or 0
        for attempt in list(self._context.state.attempts.values()):
            if attempt.phase is not Phase.RELEASING or attempt.attempt_id in self._probes:
                continue
            if now - (attempt.times["ended"] or now) > bound:
                finish(self._context, unit, attempt, now, "quarantined", list(attempt.last_probes))
            elif now - attempt.probe_at >= PROBE_AGAIN:
                send_probe(self._context, attempt)


def finish(
    context: Context, unit: Unit, attempt: LiveAttempt, now: int, release: str, probes: list[ReleaseProbe]
) -> None:
    """Close the attempt: allocations, usage segments, receipt, verdict, and what follows it."""
    outcome = attempt.outcome or outcome_of(attempt)
    attempt.times["release_confirmed"] = now
    verdict = judge(outcome, _observations(attempt))
    follows = _requeue_reason(attempt, outcome, verdict)
    receipt = _receipt(unit, attempt, now, release, probes)
    allocations = [a for member in attempt.members for a in member.allocations]
    _close(context, unit, attempt, allocations, now, release)
    for row in _segments(context, attempt, allocations, now, outcome, verdict, release):
        unit.insert(t.holding_segment, **row)
    context.charge(attempt.charges, -1)
    values: Row = {
        "release_confirmed": now, "outcome": outcome.value,
        "verdict_json": None if verdict is None else _encode(verdict).decode(),
    }  # fmt: skip
    detail: Row = {"outcome": outcome.value, "receipt": receipt, "next": follows}
    if follows is None:
        workload: Row = {"outcome": outcome.value, "finished_at": now}
        carrier = context.move(unit, attempt, Phase.FINISHED, values, workload)
        moved = (step(Phase.RELEASING, "finished", now, outcome.value),)
        context.leaf(
            unit,
            attempt,
            carrier,
            "workload.finish",
            moved,
            detail,
            None if verdict is None else verdict.code,
        )
        context.state.remove(attempt.workload_id)
    else:
        _requeue(context, unit, attempt, now, follows, values, detail)
    ended_id = str(receipt["attempt"])
    clusters = sorted(attempt.clusters)
    context.after_commit.append(lambda: _forget(context, clusters, ended_id))
    context.changed = True


def _close(
    context: Context,
    unit: Unit,
    attempt: LiveAttempt,
    allocations: list[LiveAllocation],
    now: int,
    release: str,
) -> None:
    for a in allocations:
        unit.update(t.allocation, {"id": a.id}, null=("t1",), t1=now)
        device = context.state.touch(a.device_id)
        device.held -= a.quantity
        context.meter.release(a.device_id, a.quantity, now)
        if release != "quarantined":
            continue
        device.quarantined += a.quantity
        context.meter.quarantine(a.device_id, a.quantity, render("attempt", attempt.attempt_id), now)
        unit.insert(
            t.quarantine,
            device_id=a.device_id,
            attempt_id=attempt.attempt_id,
            quantity=a.quantity,
            reason="release-unconfirmed",
            t0=now,
            t1=None,
        )


def _segments(
    context: Context,
    attempt: LiveAttempt,
    allocations: list[LiveAllocation],
    now: int,
    outcome: Outcome,
    verdict: Verdict | None,
    release: str,
) -> list[Row]:
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
    ended = EndFacts(
        outcome.value,
        None if verdict is None else verdict.stage,
        None if verdict is None else verdict.code,
        release,
    )
    return holding_rows(facts, allocations, attempt.times, now, context.org, ended)


def _receipt(unit: Unit, attempt: LiveAttempt, now: int, release: str, probes: list[ReleaseProbe]) -> Row:
    checks = [[what, seen] for probe in probes for what, seen in probe.checks]
    residue = [left for probe in probes for left in probe.residue]
    found = (
        "free" if release == "confirmed" else "occupied" if probes and release == "quarantined" else "unknown"
    )
    unit.upsert(
        t.receipt,
        ("attempt_id",),
        attempt_id=attempt.attempt_id,
        state=release,
        confirmed_at=now,
        control="ended",
        ledger="closed",
        probe=found,
        checks_json=_encode(checks).decode(),
        residue_json=_encode(residue).decode(),
    )
    return {"attempt": render("attempt", attempt.attempt_id), "state": release, "control": "ended",
            "ledger": "closed", "probe": found}  # fmt: skip


def _requeue_reason(attempt: LiveAttempt, outcome: Outcome, verdict: Verdict | None) -> str | None:
    if outcome is Outcome.PREEMPTED and attempt.cancel_requested_at is None:
        return "preempted"
    if (
        verdict is None
        or attempt.number >= attempt.spec.max_attempts
        or attempt.cancel_requested_at is not None
    ):
        return None
    ours = verdict.group == "infrastructure" and attempt.spec.restart is not RestartPolicy.NEVER
    any_failure = attempt.spec.restart is RestartPolicy.ON_FAILURE and outcome is not Outcome.TIMED_OUT
    return "retry" if ours or any_failure else None


def _requeue(
    context: Context, unit: Unit, attempt: LiveAttempt, now: int, why: str, values: Row, detail: Row
) -> None:
    """The workload goes on with its next attempt; its first submit time stays."""
    unit.update(
        t.attempt,
        {"id": attempt.attempt_id, "version": attempt.attempt_version},
        phase="finished",
        version=attempt.attempt_version + 1,
        **values,
    )
    before, number = attempt.attempt_id, attempt.number + 1
    context.state.remove(attempt.workload_id)
    delay = 0 if why == "preempted" else min(BACKOFF << (attempt.number - 1), MAX_BACKOFF)
    fresh = LiveAttempt(
        attempt.workload_id, context.store.ids.next(), number, attempt.name, attempt.namespace, attempt.project,
        attempt.kind, attempt.queue, attempt.priority, attempt.submitter, attempt.shape, attempt.shape_id,
        attempt.spec, Phase.QUEUED, None, attempt.submitted_at, attempt.version + 1, 1, attempt.head,
        {"submitted": now, "eligible": now}, None, None, now + delay if delay else 0, None, before,
    )  # fmt: skip
    carrier = unit.update(
        t.workload,
        {"id": attempt.workload_id, "version": attempt.version},
        phase="queued",
        version=attempt.version + 1,
        attempt=number,
    )
    unit.insert(
        t.attempt,
        id=fresh.attempt_id,
        workload_id=fresh.workload_id,
        number=number,
        phase="queued",
        queue=fresh.queue,
        priority=fresh.priority,
        submitted=now,
        eligible=now,
        not_before=fresh.not_before or None,
        version=1,
    )
    moved = (
        step(Phase.RELEASING, "finished", now, str(detail["outcome"])),
        step(Phase.FINISHED, "queued", now),
    )
    context.leaf(unit, fresh, carrier, "workload.requeue", moved, detail, why)
    context.state.add(fresh)


def _forget(context: Context, clusters: list[str], attempt_id: str) -> None:
    for cluster in clusters:
        agent = context.agents.get(cluster)
        if agent is not None:
            agent.send(Forget((attempt_id,)))


def _observations(attempt: LiveAttempt) -> list[MemberObservation]:
    """What was seen of the members; after a restart, from their rows."""
    text = render("attempt", attempt.attempt_id)
    return [
        m.seen
        or MemberObservation(
            text,
            m.text_id,
            MemberPhase.ENDED,
            started_at=m.started_at,
            ended_at=m.ended_at,
            exit_code=m.exit_code,
            exit_signal=m.exit_signal,
            failure=m.failure,
        )
        for m in attempt.members
    ]


def _ends(attempt: LiveAttempt) -> list[Row]:
    return [
        {"id": m.text_id, "exit_code": m.exit_code, "exit_signal": m.exit_signal, "failure": m.failure}
        for m in attempt.members
    ]

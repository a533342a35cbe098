"""The release loop: what ended is free only when three signals agree.

Control plane (every member was seen to end), ledger (its open allocations are exactly what the meter
holds for it) and live probe (the machine shows nothing of it) must agree; then there is a receipt.
Else, when the phase's timer is over, the quantity is quarantined with a reason and not offered.
"""

from __future__ import annotations

from steelyard.control.agents import Probe
from steelyard.control.context import Context, step
from steelyard.control.finish import finish, outcome_of
from steelyard.engines.port import ReleaseProbe
from steelyard.evidence.leaf import Transition
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import RULES, Phase
from steelyard.model.units import SECOND
from steelyard.services.live_records import LiveAttempt
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

PROBE_AGAIN = SECOND // 4


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
        """Each device is held as much by allocations as on the meter, and this attempt's part is in it."""
        state, meter = self._context.state, self._context.meter
        allocations = [a for member in attempt.members for a in member.allocations]
        return all(
            meter.held(a.device_id) == state.devices[a.device_id].held >= a.quantity for a in allocations
        )

    def _timers(self, unit: Unit, now: int) -> None:
        bound = RULES[Phase.RELEASING].timer or 0
        for attempt in self._context.state.in_phase(Phase.RELEASING):
            if attempt.attempt_id in self._probes:
                continue
            if now - (attempt.times["ended"] or now) > bound:
                finish(self._context, unit, attempt, now, "quarantined", list(attempt.last_probes))
            elif now - attempt.probe_at >= PROBE_AGAIN:
                send_probe(self._context, attempt)


def _ends(attempt: LiveAttempt) -> list[Row]:
    return [
        {"id": m.text_id, "exit_code": m.exit_code, "exit_signal": m.exit_signal, "failure": m.failure}
        for m in attempt.members
    ]

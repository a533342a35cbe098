"""The release loop: what ended is free only when three signals agree.

Control plane (every member was seen to end), ledger (its open allocations are exactly what the meter
holds for it) and live probe (the machine shows nothing of it) must agree; then there is a receipt.
Else, when the phase's timer is over, the quantity is quarantined with a reason and not offered.
"""

from __future__ import annotations

from contextlib import suppress

from steelyard.control.agents import Probe, ReadEnd, ReadResult
from steelyard.control.commands import part_names
from steelyard.control.context import Context
from steelyard.control.ends import note_end
from steelyard.control.finish import finish
from steelyard.control.flags import Flags
from steelyard.control.leaving import is_leaving
from steelyard.control.parts import drop_probes, ledger_differs, probes_of, release_state
from steelyard.control.quarantine import Quarantine
from steelyard.control.shrinking import release_bound, release_member, settle_leaving
from steelyard.control.verdict import unread_end
from steelyard.engines.port import Fenced, ReleaseProbe
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import Phase, check_transition
from steelyard.model.units import SECOND
from steelyard.services.evaluations import MAX_RESULT
from steelyard.services.failure_log import Line
from steelyard.services.live_records import LiveAttempt
from steelyard.store.unit import Unit

#: What is not free yet is probed again after half the time since its end, within these.
PROBE_SOON, PROBE_AGAIN = 50_000, SECOND // 4


def begin_release(context: Context, unit: Unit, attempt: LiveAttempt, now: int, started: int | None) -> None:
    """Every member ended: book how, and ask the live probe; where it was asked already and finds nothing,
    the release is confirmed in the same step."""
    before = attempt.phase
    ended = note_end(unit, attempt, now, started)
    state = _known_free(context, attempt, now)
    if state is not None:
        check_transition(before, Phase.RELEASING)
        context.state.change_phase(attempt, Phase.RELEASING)
        probes = probes_of(context, attempt) or {}
        drop_probes(context, attempt)
        finish(context, unit, attempt, now, state, probes, [], ended)
        return
    drop_probes(context, attempt)  # of before the end was known: asked anew
    carrier = context.move(unit, attempt, Phase.RELEASING, ended.values)
    context.leaf(unit, attempt, carrier, "workload.end", ended.transitions, ended.detail)
    context.after_commit.append(lambda: send_probe(context, attempt))


def _known_free(context: Context, attempt: LiveAttempt, now: int) -> str | None:
    """What a receipt says of an attempt whose probes came with its end; None where more is to be asked."""
    probes = probes_of(context, attempt)
    if probes is None or any(probe.free is False for probe in probes.values()):
        return None
    if any(probe.at < (attempt.times["ended"] or now) for probe in probes.values()):
        return None  # of a part that ended earlier, or before a stop: it does not speak of this end
    if attempt.spec.evaluation is not None or unread_end(attempt) is not None:
        return None  # a result or a log is read first
    return None if ledger_differs(context, attempt.members) else release_state(probes)


def send_probe(context: Context, attempt: LiveAttempt) -> None:
    """Ask the live probe of each cluster."""
    attempt.probe_at = context.store.now()
    name, unread = render("attempt", attempt.attempt_id), unread_end(attempt)
    for cluster in sorted(attempt.clusters):
        agent = context.agents.get(cluster)
        if agent is not None:
            if unread is not None and unread.cluster == cluster:
                agent.send(ReadEnd(((name, unread.text_id),)))  # answered before the probe is
            first = min(attempt.members, key=lambda member: (member.role, member.index))
            if attempt.spec.evaluation is not None and not attempt.result_read and first.cluster == cluster:
                path = attempt.spec.evaluation.result
                agent.send(ReadResult(((name, first.text_id, path, MAX_RESULT + 1),)))
            agent.send(Probe(part_names(attempt, cluster)))


class Releaser:
    """Collects probes and confirms, or quarantines."""

    def __init__(self, context: Context, flags: Flags) -> None:
        self._context = context
        self.quarantine = Quarantine(context, flags)

    def probed(self, cluster: str, probe: ReleaseProbe, *, asked: bool = True) -> None:
        """Take in what the live probe of a cluster found. `asked`: else it came with an observation, and what
        is to be read before it may still be on its way."""
        try:
            attempt_id = parse("attempt", probe.attempt_id)
        except InvalidError:
            return
        state = self._context.state
        attempt = state.attempts.get(attempt_id) or state.parts.get(attempt_id)
        if attempt is not None:
            if asked or attempt.phase is not Phase.RELEASING:
                self._context.probes.setdefault(attempt_id, {})[cluster] = probe
        else:
            self.quarantine.probed(cluster, attempt_id, probe)

    def fenced(self, cluster: str, fenced: Fenced) -> None:
        """Take in what a fence ended."""
        with suppress(InvalidError):
            self.quarantine.fenced(cluster, parse("attempt", fenced.attempt_id), fenced)

    def left(self, attempt_id: str, data: bytes | None) -> None:
        """Take in the result that an evaluation left; answered before its probe is."""
        with suppress(InvalidError):
            attempt = self._context.state.attempts.get(parse("attempt", attempt_id))
            if attempt is not None:
                attempt.result, attempt.result_read = data, True

    def told(self, attempt_id: str, member_id: str, lines: tuple[Line, ...]) -> None:
        """Take in what a member's log says about its end."""
        attempt = self._context.state.attempts.get(parse("attempt", attempt_id))
        for member in () if attempt is None else attempt.members:
            if member.text_id == member_id:
                member.lines = lines

    def run(self, limit: int = 200) -> bool:
        """Confirm what is free, in the unit that is carried over; True when more is waiting. What was moved
        in it has its turn in the next pass."""
        context, now = self._context, self._context.now()
        unit = context.going_on()
        done = 0
        for part in sorted(context.probes):
            if done >= limit:
                break
            attempt = context.state.attempts.get(part) or context.state.parts.get(part)
            if attempt is None or part not in context.probes:
                context.probes.pop(part, None)
            elif attempt.phase is not Phase.RELEASING:
                if attempt.workload_id not in context.moved or not is_leaving(attempt, part):
                    done += release_member(context, unit, attempt, part, context.probes.pop(part), now)
            elif attempt.workload_id not in context.moved:
                probes = probes_of(context, attempt)
                if probes is not None:
                    drop_probes(context, attempt)
                    done += self._judge(unit, attempt, probes, now)
        self._timers(unit, now)
        settle_leaving(context, unit, now)
        context.carry(unit)
        self.quarantine.run()
        return bool(self._context.probes)

    def _judge(
        self, unit: Unit, attempt: LiveAttempt, probes: dict[str, ReleaseProbe], now: int
    ) -> int:
        differs = ledger_differs(self._context, attempt.members)
        if differs or any(probe.free is False for probe in probes.values()):
            attempt.last_probes = probes
            return 0
        finish(self._context, unit, attempt, now, release_state(probes), probes, [])
        return 1

    def _timers(self, unit: Unit, now: int) -> None:
        for attempt in self._context.state.in_phase(Phase.RELEASING):
            probed = any(part in self._context.probes for part in attempt.parts())
            if probed or attempt.workload_id in self._context.moved:
                continue
            if now - (attempt.times["ended"] or now) > release_bound(self._context, attempt.clusters):
                ledger = ledger_differs(self._context, attempt.members)
                finish(self._context, unit, attempt, now, "quarantined", attempt.last_probes, ledger)
            elif now >= _probe_due(attempt, now):
                send_probe(self._context, attempt)

    def due_in(self) -> float | None:
        """Seconds until something that is being released is to be probed again; None where nothing is."""
        now = self._context.store.now()
        due = [_probe_due(attempt, now) for attempt in self._context.state.in_phase(Phase.RELEASING)]
        return max(0, min(due) - now) / SECOND if due else None


def _probe_due(attempt: LiveAttempt, now: int) -> int:
    since = now - (attempt.times["ended"] or now)
    return attempt.probe_at + min(max(since // 2, PROBE_SOON), PROBE_AGAIN)

"""The release of members that left an elastic gang: proven like that of an attempt, member by member.

Control plane (it was seen to end), ledger (what it holds is what the meter has) and live probe (nothing of it
is left) must agree. Then it has a receipt, what it held is charged to nobody any more, and its attempt is
smaller by it. What is not proven within the release's time goes into quarantine, under the member's number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.control.context import Context
from steelyard.control.finish import close, forget, receipt_of, segments
from steelyard.control.leaving import ask_probe, is_leaving
from steelyard.control.parts import ledger_differs, release_state
from steelyard.control.quarantine import member_reasons, open_release, seen_of
from steelyard.engines.port import ReleaseProbe
from steelyard.evidence.usage import EndFacts
from steelyard.model.lifecycle import RULES, Outcome, Phase
from steelyard.model.units import SECOND
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

#: What is not free yet is probed again after this time.
PROBE_AGAIN = SECOND // 4
_WHERE = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)


def release_bound(context: Context, clusters: Iterable[str]) -> int:
    """How long a release may take: the longest that its clusters declare, else the phase's timer."""
    declared = [context.state.release_within.get(cluster) for cluster in clusters]
    return max((one or RULES[Phase.RELEASING].timer or 0 for one in declared), default=0)


def release_member(
    context: Context, unit: Unit, attempt: LiveAttempt, part: int, probes: Mapping[str, ReleaseProbe],
    now: int,
) -> int:  # fmt: skip
    """Release a member that left if its probe finds nothing; how many were. A probe of anything else says
    nothing yet, nor does one from before the member's end."""
    if not is_leaving(attempt, part):
        return 0
    (member,) = attempt.part_of(part)
    late = all(probe.at >= (member.ended_at or now) for probe in probes.values())
    if member.phase != "ended" or member.cluster not in probes or not late:
        return 0
    differs = ledger_differs(context, [member])
    if differs or any(probe.free is False for probe in probes.values()):
        attempt.last_probes = {**attempt.last_probes, member.part_id: probes[member.cluster]}
        return 0
    _let_go(context, unit, attempt, member, now, release_state(probes), probes)
    return 1


def _let_go(
    context: Context, unit: Unit, attempt: LiveAttempt, member: LiveMember, now: int, release: str,
    probes: Mapping[str, ReleaseProbe],
) -> None:  # fmt: skip
    reasons = member_reasons(member, probes, ledger_differs(context, [member]), release)
    receipt = receipt_of(unit, attempt, now, release, probes, reasons, member)
    end = EndFacts(Outcome.PREEMPTED.value, None, None, release)
    for row in segments(context, attempt, member.allocations, now, end):
        unit.insert(t.holding_segment, **row)
    charges = context.state.counting().charges_of(attempt.shape, member.allocations)
    context.charge(charges, -1)
    close(context, unit, member.id, [member], now, release)
    if reasons:
        open_release(context, unit, attempt, member.id, [member], now, reasons, seen_of(probes.values()))
    unit.update(t.member, {"id": member.id}, released_at=now)
    attempt.left_at = now
    context.state.lose_member(attempt, member)
    carrier = context.move(unit, attempt, attempt.phase, {})
    detail: Row = {"member": member.text_id, "role": member.role, "index": member.index, "receipt": receipt,
                   "goes_on_with": len(attempt.staying)}  # fmt: skip
    context.leaf(unit, attempt, carrier, "workload.shrunk", (), detail)
    if not reasons:
        context.after_commit.append(lambda: forget(context, {member.id: {member.cluster}}))
    context.changed = True


def settle_leaving(context: Context, unit: Unit, now: int) -> None:
    """Probe again what is not free yet; keep back what was not proven free in time."""
    for attempt in context.state.in_phase(*_WHERE):
        if attempt.workload_id in context.moved or not attempt.leaves:
            continue
        for member in attempt.members:
            if member.leaving_at is None or member.phase != "ended" or member.id in context.probes:
                continue
            if now - (member.ended_at or now) > release_bound(context, [member.cluster]):
                seen = attempt.last_probes.pop(member.part_id, None)
                probes = {} if seen is None else {member.cluster: seen}
                _let_go(context, unit, attempt, member, now, "quarantined", probes)
                break
            if now - member.command_at >= PROBE_AGAIN:
                ask_probe(context, member)

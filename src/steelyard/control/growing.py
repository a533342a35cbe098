"""Members that join a gang which runs: booked, started, and given up again where they could not start.

They are of the same attempt and numbered on. Each is a part by itself, so nothing of the others is touched.
One that does not come to run (its image is missing, its node is gone) is let go like one that left, and its
attempt gets no more: a program is not to be tried again and again where it can't start.
"""

from __future__ import annotations

import msgspec

from steelyard.control.agents import Start
from steelyard.control.attempts import attempt_starts
from steelyard.control.context import Context
from steelyard.control.leaving import TELL_AGAIN, tell_all
from steelyard.control.notices import Tell
from steelyard.engines.port import MemberPhase
from steelyard.model.ids import render
from steelyard.model.lifecycle import RULES, Phase
from steelyard.scheduling import Growth
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode


def book_growth(
    context: Context, unit: Unit, cycle_id: int, growth: Growth, members: list[LiveMember],
    where: list[Row], now: int,
) -> None:  # fmt: skip
    """Charges, devices and the leaf of members that join; their rows are written."""
    attempt = context.state.attempts[growth.attempt_id]
    attempt.members += members
    context.charge(growth.charges, 1)
    context.state.note_more(attempt, growth.charges)
    attempt.charges = context.state.counting().charges_of(attempt.shape, attempt.allocations())
    for member in members:
        for allocation in member.allocations:
            device = context.state.touch(allocation.device_id)
            device.held += allocation.quantity
            device.share_kind = allocation.share_kind
            context.meter.hold(allocation.device_id, allocation.quantity, now)
    carrier = context.move(unit, attempt, attempt.phase, {})
    detail = {"cycle": render("cycle", cycle_id), "members": where, "goes_on_with": len(attempt.staying)}
    context.leaf(unit, attempt, carrier, "workload.grow", (), detail)
    context.after_commit.append(lambda: start_members(context, attempt, members))


def start_members(context: Context, attempt: LiveAttempt, members: list[LiveMember]) -> None:
    """(Again) hand their start to their engines; it is idempotent by part."""
    wanted = {member.part_id for member in members}
    for member in members:
        member.command_at = context.store.now()
    for cluster in sorted({member.cluster for member in members}):
        agent = context.agents.get(cluster)
        if agent is not None:
            starts = attempt_starts(context.state, context.store.install_id, attempt, cluster, {})
            agent.send(Start(tuple(start for start in starts if start.attempt_id in wanted)))


def joining(attempt: LiveAttempt) -> list[LiveMember]:
    """Those that joined and do not run yet."""
    if not attempt.shape.grows:
        return []
    return [m for m in attempt.members if m.joined_at is not None and m.phase == "starting"]


def failed_to_join(attempt: LiveAttempt, now: int) -> list[LiveMember]:
    """Those of them that ended before they ran, or take longer than a start may."""
    if not attempt.shape.grows or attempt.phase is not Phase.RUNNING:
        return []
    most = RULES[Phase.STARTING].timer or 0
    return [m for m in joining(attempt) if _has_failed(m) or now - (m.joined_at or now) > most]


def _has_failed(member: LiveMember) -> bool:
    seen = member.seen
    return seen is not None and seen.phase is MemberPhase.ENDED and seen.started_at is None


def let_go(context: Context, unit: Unit, attempt: LiveAttempt, members: list[LiveMember], now: int) -> None:
    """They leave again, and the attempt gets no more."""
    attempt.joins_off = attempt.shrunk_at = now
    for member in members:
        member.leaving_at, member.phase = now, "stopping"
        unit.update(t.member, {"id": member.id}, phase="stopping", leaving_at=now)
    carrier = context.move(unit, attempt, attempt.phase, {"joins_off": now})
    failures = [{"member": m.text_id, "failure": None if m.seen is None else m.seen.failure} for m in members]
    context.leaf(unit, attempt, carrier, "workload.join-failed", (), {"members": failures})
    context.after_commit.append(lambda: tell_all(context, attempt, members))


def tell_members(context: Context, attempt: LiveAttempt, now: int) -> None:
    """Those that run, who else is there; engines again of those that join, while nothing is seen of them."""
    _tell_who_is_there(context, attempt)
    unseen = [m for m in joining(attempt) if m.seen is None and now - m.command_at >= TELL_AGAIN]
    if unseen:
        start_members(context, attempt, unseen)


def _tell_who_is_there(context: Context, attempt: LiveAttempt) -> None:
    """Running members find the indexes of those that run with them, by role; once in each life of the loop,
    and whenever that changes."""
    there = [member for member in attempt.staying if member.phase == "running"]
    now = tuple((member.role, member.index) for member in there)
    if now == attempt.told:
        return
    attempt.told = now
    roles: dict[str, list[int]] = {}
    for role, index in sorted(now):
        roles.setdefault(role, []).append(index)
    text = _encode(roles).decode()
    for cluster in sorted({member.cluster for member in there}):
        agent = context.agents.get(cluster)
        if agent is not None:
            own = [member for member in there if member.cluster == cluster]
            agent.send(Tell(tuple((_part(attempt, member), member.text_id, text) for member in own)))


def _part(attempt: LiveAttempt, member: LiveMember) -> str:
    return member.part_id if member.apart else render("attempt", attempt.attempt_id)

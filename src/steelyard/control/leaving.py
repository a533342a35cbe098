"""Members that leave an elastic gang while it goes on: asking them to, and following them to their end.

A member that leaves is told as a whole attempt is: to save its work where it declares that it does, then
TERM, KILL after its grace. What it holds stays charged to its attempt until its release is proven (see
`shrinking`).
"""

from __future__ import annotations

from steelyard.control.agents import Checkpoint, Probe, Stop
from steelyard.control.context import Context
from steelyard.control.ends import member_ended
from steelyard.engines.port import MemberPhase
from steelyard.model.units import SECOND
from steelyard.model.workloads import MemberPlan, WorkloadSpec
from steelyard.services.live_records import LiveAttempt, LiveMember
from steelyard.store import tables as t
from steelyard.store.unit import Unit

#: A stop of which nothing is seen is told again after this time.
TELL_AGAIN = 2 * SECOND


def is_apart(spec: WorkloadSpec, plan: MemberPlan) -> bool:
    """Whether the attempt could go on without this member."""
    role = next(role for role in spec.roles if role.name == plan.role)
    return role.least is not None and role.shrink and plan.index >= role.least


def is_leaving(attempt: LiveAttempt, part: int) -> bool:
    """Whether the part is a member that leaves."""
    return any(member.id == part and member.leaving_at is not None for member in attempt.members)


def ask_to_leave(
    context: Context, unit: Unit, attempt: LiveAttempt, members: list[LiveMember], now: int,
    detail: dict[str, object], why: str = "preempted",
) -> None:  # fmt: skip
    """They stop, and the attempt goes on in its phase; their places stay theirs until they are released."""
    attempt.shrunk_at = now
    for member in members:
        member.leaving_at, member.phase = now, "stopping"
        unit.update(t.member, {"id": member.id}, phase="stopping", leaving_at=now)
    carrier = context.move(unit, attempt, attempt.phase, {})
    context.leaf(unit, attempt, carrier, "workload.shrink", (), detail, reason=why)
    context.after_commit.append(lambda: tell_all(context, attempt, members))


def tell_all(context: Context, attempt: LiveAttempt, members: list[LiveMember]) -> None:
    """Tell their engines that they are to save their work, or to end."""
    for member in members:
        _tell(context, attempt, member)


def _tell(context: Context, attempt: LiveAttempt, member: LiveMember) -> None:
    member.command_at = context.store.now()
    agent = context.agents.get(member.cluster)
    if agent is not None:
        saves = member.command_at < _term_due(attempt, member)
        name = (member.part_id,)
        agent.send(Checkpoint(name) if saves else Stop(name, attempt.spec.grace))


def _term_due(attempt: LiveAttempt, member: LiveMember) -> int:
    """When TERM may be sent (µs); 0: at once."""
    within = attempt.spec.checkpoint
    if not within or member.leaving_at is None or member.started_at is None:
        return 0
    return member.leaving_at + within


def follow(context: Context, unit: Unit, attempt: LiveAttempt) -> None:
    """Those that left and were seen to end: their rows, and the question whether they are gone."""
    for member in attempt.members:
        ended = member.seen is not None and member.seen.phase is MemberPhase.ENDED
        if member.leaving_at is not None and ended and member.phase != "ended":
            member_ended(unit, member)
            context.after_commit.append(lambda member=member: ask_probe(context, member))  # type: ignore[misc]


def ask_probe(context: Context, member: LiveMember) -> None:
    """Ask the live probe of a member that left."""
    member.command_at = context.store.now()
    agent = context.agents.get(member.cluster)
    if agent is not None:
        agent.send(Probe((member.part_id,)))


def tell_again(context: Context, attempt: LiveAttempt, now: int) -> None:
    """What is not seen to end after a while is told again; TERM follows once the time to save is over."""
    for member in attempt.members:
        if member.leaving_at is None or member.phase == "ended":
            continue
        due = _term_due(attempt, member)
        if member.command_at < due <= now or (now - member.command_at >= TELL_AGAIN and now >= due):
            _tell(context, attempt, member)

"""Preemption: place first, then evict the least, and keep what becomes free.

Who may be stopped and by which rule says `reclaim`, which of them are says `victims`. What comes of it is a
hold (`holds`): a feasible placement, kept for the attempt while its victims stop. Attempts that stop anyway
count as free before anybody is asked to stop, and a place that is only kept for a lower priority is taken
over before work is stopped. An attempt that has not waited as long as its queue says evicts nobody, nor does
one whose queue has spent its evictions of the hour.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from steelyard.model.policy import Reclaim
from steelyard.model.resources import DeviceClass
from steelyard.model.units import HOUR
from steelyard.scheduling.context import EXPLAIN_EVERY, Context
from steelyard.scheduling.decisions import Eviction
from steelyard.scheduling.placement import ShapePlan, allocations_of
from steelyard.scheduling.pools import Pool, Pools
from steelyard.scheduling.reclaim import Loss, Reach, Verdict
from steelyard.scheduling.victims import Choice, Simulation, choose
from steelyard.scheduling.views import HoldView, PendingItem, RunningView

__all__ = ["MAX_LOOKS", "MAX_TRIES", "Pools", "Proposal", "evicted_and_requested", "propose"]

#: Shapes that may look for victims in one cycle, first in order first.
MAX_TRIES = 24
#: Node looks of all these searches in one cycle; the search that passes it is the last.
MAX_LOOKS = 50_000
#: Allocations that all these searches take off and put back in one cycle; the one that passes it is the last.
MAX_MOVES = 8_000

#: A hold, the evictions it needs, and the holds of others that it takes over.
Proposal: TypeAlias = tuple[HoldView, list[Eviction], list[HoldView]]


def propose(context: Context, pools: Pools, plan: ShapePlan, item: PendingItem) -> Proposal | None:
    """A hold for the attempt with the evictions it needs, or None. Nothing is changed: whoever takes it
    gives it to `Context.add_hold`."""
    if not plan.roles or not _may_ask(context, plan, item) or not _is_due(context, plan):
        return None
    if not _has_waited(context, plan, item):
        return None
    reach, pool = pools.of(plan, item)
    if pool is None or not _is_in_reach(context, plan, pool):
        return None
    context.preemptions_tried += 1
    looks, moves = context.board.looks, context.board.changes
    choice = choose(context, plan, reach, pool, _allowed(context, plan, item))
    context.preemption_looks += context.board.looks - looks
    context.preemption_moves += context.board.changes - moves
    if choice is None:
        if pool.is_cut:
            context.approximate.add(plan.shape.key)
        return None
    return _proposal(context, reach, pool, choice)


def _may_ask(context: Context, plan: ShapePlan, item: PendingItem) -> bool:
    """False where its queue's rules let nobody be stopped for it."""
    rule = context.rules.of(plan.shape.queue).preemption
    return item.guaranteed or rule.within_queue or rule.reclaim is not Reclaim.NEVER


def _proposal(context: Context, reach: Reach, pool: Pool, choice: Choice) -> Proposal:
    plan, item, found = reach.plan, reach.item, choice.found
    stopped = _stopped(choice)
    waits_for = (*(view for _, _, views in stopped for view in views), *_awaited(context, plan, pool, choice))
    hold = HoldView(
        item.attempt_id, item.workload_id, plan.shape, item, found.members, found.charges,
        tuple(sorted({victim.attempt_id for victim in waits_for})), context.now,
    )
    evictions = [_eviction(reach, loss, verdict, views) for loss, verdict, views in stopped]
    return hold, evictions, [context.holds[loss.view.attempt_id] for loss, _ in choice.losses if loss.is_hold]


def _stopped(choice: Choice) -> list[tuple[Loss, Verdict, list[RunningView]]]:
    """Each attempt that loses something: all of it, or the members without whom it goes on."""
    found: dict[int, tuple[Loss, Verdict, list[RunningView]]] = {}
    for loss, verdict in choice.losses:
        if loss.is_hold:
            continue
        known = found.get(loss.attempt_id)
        if not loss.is_part:
            found[loss.attempt_id] = (loss, verdict, [loss.gang or loss.view])
        elif known is None:
            found[loss.attempt_id] = (loss, verdict, [loss.view])
        elif known[0].is_part:
            known[2].append(loss.view)
    return list(found.values())


def _awaited(context: Context, plan: ShapePlan, pool: Pool, choice: Choice) -> Sequence[RunningView]:
    """Of those that stop anyway, whom the hold waits for: those on its nodes, else all that it may count on,
    where that is enough beside all other holds; else also those for whom the other holds wait."""
    nodes = {member.node_id for member in choice.found.members}
    near = [view for view in pool.stopping if any(member.node_id in nodes for member in view.members)]
    for ending in (near, pool.stopping):
        if (ending or choice.losses) and _is_enough(context, plan, ending, choice):
            return ending
    endable = context.endable
    others = {victim for hold in context.holds.values() for victim in hold.victims if victim in endable}
    return (*pool.stopping, *(endable[victim] for victim in sorted(others)))


def _is_enough(
    context: Context, plan: ShapePlan, ending: Sequence[RunningView], choice: Choice
) -> bool:
    """Whether the limits let the hold start beside all other holds, once these and its victims are gone."""
    simulation = Simulation(context, plan)
    simulation.off(ending)
    simulation.take(loss for loss, _ in choice.losses)
    taken = {loss.view.attempt_id for loss, _ in choice.losses}
    others = [hold.charges for key, hold in context.holds.items() if key not in taken]
    context.ledger.add_all(others)
    enough = context.ledger.may_charge(choice.found.charges)
    context.ledger.add_all(others, -1)
    simulation.restore()
    return enough


def _is_due(context: Context, plan: ShapePlan) -> bool:
    """A shape that found no victims looks for them again after a while, so that others get their turn. Those
    that a bound puts off are first in the next cycle: they don't count as looked at."""
    looked = context.snapshot.last_looked.get(plan.shape.key)
    if looked is not None and context.now - looked < EXPLAIN_EVERY:
        return False
    if (
        context.preemptions_tried < MAX_TRIES
        and context.preemption_looks < MAX_LOOKS
        and context.preemption_moves < MAX_MOVES
    ):
        return True
    context.put_off.add(plan.shape.key)
    return False


def _has_waited(context: Context, plan: ShapePlan, item: PendingItem) -> bool:
    """The queue's delay, anew after each eviction of its own. What a service is guaranteed does not wait."""
    due = max(item.eligible_at, item.submitted) + context.rules.of(plan.shape.queue).preemption.delay
    if due <= context.now or item.guaranteed:
        return True
    context.wake(due)
    return False


def _eviction(reach: Reach, loss: Loss, verdict: Verdict, views: Sequence[RunningView]) -> Eviction:
    item, shape, victim = reach.item, reach.plan.shape, loss.gang or loss.view
    numbers = {view.attempt_id for view in views} if loss.is_part else ()
    members = [gone for gone in reach.context.surplus(victim) if gone.member_id in numbers] if numbers else ()
    return Eviction(
        victim.workload_id, victim.attempt_id, victim.queue, victim.priority,
        item.workload_id, item.attempt_id, shape.priority, verdict.rule, shape.queue, verdict.shares,
        tuple(members),
    )


def _allowed(context: Context, plan: ShapePlan, item: PendingItem) -> int:
    """Evictions left to the queue's work in this hour. What a service is guaranteed is not bounded by it."""
    most, budget = context.policy.max_victims, context.rules.of(plan.shape.queue).preemption.per_hour
    if budget is None or item.guaranteed:
        return most
    queue = plan.shape.queue
    lately = [at for at in context.snapshot.evicted.get(queue, ()) if at > context.now - HOUR]
    spent = sum(1 for eviction in context.evictions.values() if eviction.preemptor_queue == queue)
    left = min(most, budget - len(lately) - spent)
    if lately and left < most:
        context.wake(min(lately) + HOUR)
    return left


def _is_in_reach(context: Context, plan: ShapePlan, pool: Pool) -> bool:
    """A cheap necessary test: what is free and what all of them hold must suffice in sum."""
    lead = plan.lead
    wanted = lead.count * lead.need.amount
    return any(context.board.free(name) + pool.reach.get(name, 0) >= wanted for name in lead.flavors)


def evicted_and_requested(context: Context) -> tuple[int, int]:
    """What the victims of this cycle give up of the preemptors' own classes, and what these ask for. Who
    stops for nobody does not count."""
    evicted = requested = 0
    classes: dict[int, DeviceClass] = {}
    made_for = {
        key: made.preemptor_attempt_id
        for key, made in context.evictions.items()
        if made.preemptor_attempt_id is not None
    }
    for attempt_id in sorted(set(made_for.values())):
        lead = context.plan(context.holds[attempt_id].shape).lead
        classes[attempt_id] = lead.need.primary
        requested += context.plan(context.holds[attempt_id].shape).amounts.get(lead.need.primary, 0)
    for key, preemptor in made_for.items():
        gone = [member for view in context.stops_by(context.evictions[key]) for member in view.members]
        for _, allocation in allocations_of(gone):
            if allocation.device_class is classes[preemptor]:
                evicted += allocation.quantity
    return evicted, requested

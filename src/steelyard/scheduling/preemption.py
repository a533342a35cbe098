"""Preemption: place first, then evict the least, and keep what becomes free.

Victims are of the preemptor's own queue. Only what a service is guaranteed is taken back from any queue: it
lies within the nominal quota of the service's queue, so that who has it there has borrowed it.

A hold is the proof of progress: a feasible placement of the preemptor, kept for it while its victims
stop. Without one nobody is evicted, and while one stands its attempt evicts nobody else. Attempts of
the queue that stop anyway count as free before anybody is asked to stop for it.

Victims are taken greedily (lowest priority, then newest first) up to the smallest prefix that makes
room, then filled back: whoever may stay after all, stays (after Kueue, design/queueing.md 1.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import TypeAlias

from steelyard.scheduling.context import EXPLAIN_EVERY, HOLD_TIMER, Context
from steelyard.scheduling.decisions import GUARANTEE, WITHIN_QUEUE, DropCause, DroppedHold, Eviction
from steelyard.scheduling.ledger import Ask, Ledger
from steelyard.scheduling.placement import Plan, ShapePlan, allocations_of
from steelyard.scheduling.views import HoldView, PendingItem, RunningView

#: Shapes that may look for victims in one cycle, highest priority first.
MAX_TRIES = 64
#: Node looks of all these searches in one cycle; the search that passes it is the last.
MAX_LOOKS = 100_000
#: Candidates looked at, as a multiple of the victims allowed.
CANDIDATES_PER_VICTIM = 16

Proposal: TypeAlias = tuple[HoldView, list[Eviction]]


@dataclass(frozen=True, slots=True)
class Pool:
    """Who could make room: those that stop anyway, and those that would have to be asked to."""

    stopping: tuple[RunningView, ...]
    victims: tuple[RunningView, ...]
    is_cut: bool  # there are more than were looked at
    reach: Mapping[str, int]  # by flavor, what all of them hold together


def settle_holds(context: Context) -> list[DroppedHold]:
    """Places the attempts whose places are free now and within their quotas, keeps the other holds where
    that makes sense. Free places are not enough: a victim is charged until its release is proven, also
    where the preemptor goes elsewhere."""
    dropped, kept = [], []
    charged = _without_holds(context)
    for hold in sorted(
        context.snapshot.holds.values(), key=lambda hold: (-hold.shape.priority, hold.since, hold.attempt_id)
    ):
        cause = _drop_cause(context, hold)
        if (
            cause is None
            and not hold.item.standby
            and _is_answering(context, hold)
            and _is_within_quota(charged, hold)
            and context.board.take_if_free(hold.members)
        ):
            charged.add(hold.charges)
            context.commit_hold(hold)
            continue
        waits = hold.item.standby or any(victim in context.snapshot.running for victim in hold.victims)
        if cause is None and not waits:
            cause = DropCause.REVISED if _is_answering(context, hold) else None
        if cause is None:
            kept.append(hold)
        else:
            dropped.append(DroppedHold(hold.workload_id, hold.attempt_id, cause, hold.charges))
            context.ledger.add(hold.charges, -1)
    context.ledger.keep(kept, context.snapshot.running)
    for hold in kept:
        context.board.change_members(hold.members, -1)
        context.holds[hold.attempt_id] = hold
    return dropped


def _without_holds(context: Context) -> Ledger:
    """What is charged now by those that hold something, or are kept it until they are wanted."""
    ledger = Ledger(context.snapshot.trees, context.snapshot.usage)
    for hold in context.snapshot.holds.values():
        if not hold.item.standby:
            ledger.add(hold.charges, -1)
    return ledger


def _is_within_quota(ledger: Ledger, hold: HoldView) -> bool:
    trees = ledger.trees
    return ledger.fits(
        Ask(charge.tree, charge.node, charge.subject, charge.quantity)
        for charge in hold.charges
        if charge.tree in trees and charge.node in trees[charge.tree].nodes
    )


def _drop_cause(context: Context, hold: HoldView) -> DropCause | None:
    if not hold.alive or hold.attempt_id in context.snapshot.running:
        return DropCause.VANISHED
    for member, allocation in allocations_of(hold.members):
        node = context.snapshot.nodes.get(member.node_id)
        if node is None or not node.schedulable or allocation.device_id in node.unavailable:
            return DropCause.REVISED
    if context.now - hold.since > HOLD_TIMER and not hold.item.standby:
        return DropCause.EXPIRED
    return None


def _is_answering(context: Context, hold: HoldView) -> bool:
    return all(member.cluster in context.answering for member in hold.members)


def propose(context: Context, pools: Pools, plan: ShapePlan, item: PendingItem) -> Proposal | None:
    """A hold for the attempt with the evictions it needs, or None. Nothing is changed: whoever takes it
    gives it to `Context.add_hold`."""
    if not context.policy.preemption.within_queue:
        return None
    pool = pools.of(None if item.guaranteed else plan.shape.queue, plan.shape.priority)
    if pool is None or not _is_due(context, plan) or not _is_in_reach(context, plan, pool):
        return None
    context.preemptions_tried += 1
    looks = context.board.looks
    simulation = _Simulation(context, plan)
    simulation.remove(pool.stopping)
    chosen = _choose(simulation, pool.victims)
    found = simulation.attempt() if chosen is not None else None
    simulation.restore()
    context.preemption_looks += context.board.looks - looks
    if chosen is None or found is None or len(chosen) > _allowed(context, plan.shape.queue):
        if pool.is_cut:
            context.approximate.add(plan.shape.key)
        return None
    waits_for = (*chosen, *_touching(pool.stopping, found, bool(chosen)))
    hold = HoldView(
        item.attempt_id, item.workload_id, plan.shape, item, found.members, found.charges,
        tuple(sorted(victim.attempt_id for victim in waits_for)), context.now,
    )
    return hold, [_eviction(plan, item, victim) for victim in chosen]


def _is_due(context: Context, plan: ShapePlan) -> bool:
    """A shape that found no victims looks for them again after a while, so that others get their turn."""
    looked = context.snapshot.last_looked.get(plan.shape.key)
    if looked is not None and context.now - looked < EXPLAIN_EVERY:
        return False
    return context.preemptions_tried < MAX_TRIES and context.preemption_looks < MAX_LOOKS


def _eviction(plan: ShapePlan, item: PendingItem, victim: RunningView) -> Eviction:
    rule = GUARANTEE if victim.queue != plan.shape.queue else WITHIN_QUEUE
    return Eviction(
        victim.workload_id, victim.attempt_id, victim.queue, victim.priority,
        item.workload_id, item.attempt_id, plan.shape.priority, rule,
    )


def _allowed(context: Context, queue: str) -> int:
    budget = context.snapshot.eviction_budgets.get(queue)
    spent = sum(1 for eviction in context.evictions.values() if eviction.queue == queue)
    most = context.policy.max_victims
    return most if budget is None else min(most, budget - spent)


class Pools:
    """Who could make room for a priority in a queue (None: in any); looked up once while nothing changes."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._known: dict[tuple[str | None, int], Pool | None] = {}
        self._evictions = 0

    def of(self, queue: str | None, priority: int) -> Pool | None:
        """None when the queue has nothing of a strictly lower priority that may make room."""
        if self._evictions != len(self.context.evictions):
            self._known.clear()
            self._evictions = len(self.context.evictions)
        key = (queue, priority)
        if key not in self._known:
            self._known[key] = _pool(self.context, queue, priority)
        return self._known[key]


def _pool(context: Context, queue: str | None, priority: int) -> Pool | None:
    running = context.running_anywhere() if queue is None else context.running_in(queue)
    if not running or running[0].priority >= priority:
        return None
    stopping = tuple(attempt for attempt in running if context.is_stopping(attempt))
    latest = context.now - context.policy.preemption.min_runtime
    victims = [
        attempt
        for attempt in takewhile(lambda attempt: attempt.priority < priority, running)
        if attempt.preemptible
        and attempt.placed_at <= latest
        and not context.is_stopping(attempt)
        and all(member.cluster in context.answering for member in attempt.members)
    ]
    if not victims and not any(attempt.priority < priority for attempt in stopping):
        return None
    most = CANDIDATES_PER_VICTIM * context.policy.max_victims
    looked_at = tuple(victims[:most])
    reach: dict[str, int] = {}
    for attempt in (*stopping, *looked_at):
        for _, allocation in allocations_of(attempt.members):
            reach[allocation.flavor] = reach.get(allocation.flavor, 0) + allocation.quantity
    return Pool(stopping, looked_at, len(victims) > most, reach)


def _is_in_reach(context: Context, plan: ShapePlan, pool: Pool) -> bool:
    """A cheap necessary test: what is free and what all of them hold must suffice in sum."""
    if not plan.roles:
        return False
    lead = plan.lead
    wanted = lead.count * lead.need.amount
    return any(context.board.free(name) + pool.reach.get(name, 0) >= wanted for name in lead.flavors)


def _touching(stopping: Sequence[RunningView], found: Plan, has_victims: bool) -> list[RunningView]:
    nodes = {member.node_id for member in found.members}
    near = [attempt for attempt in stopping if any(member.node_id in nodes for member in attempt.members)]
    return near if near or has_victims else list(stopping)


def _choose(simulation: _Simulation, victims: Sequence[RunningView]) -> list[RunningView] | None:
    """A minimal set of victims, now removed in the simulation; None if all of them don't suffice."""
    if simulation.attempt() is not None:
        return []
    simulation.remove(victims)
    if simulation.attempt() is None:
        return None
    low, high, removed = 0, len(victims), len(victims)  # a prefix of `low` is too short, of `high` suffices
    while high - low > 1:
        middle = (low + high) // 2
        simulation.move(victims, removed, middle)
        removed = middle
        if simulation.attempt() is None:
            low = middle
        else:
            high = middle
    simulation.move(victims, removed, high)
    return _fill_back(simulation, list(victims[:high]))


def _fill_back(simulation: _Simulation, chosen: list[RunningView]) -> list[RunningView]:
    found = simulation.attempt()
    if found is not None:
        nodes = {member.node_id for member in found.members}
        apart = [v for v in chosen if not any(member.node_id in nodes for member in v.members)]
        simulation.reinstate(apart)
        if simulation.attempt() is None:
            simulation.remove(apart)
        else:
            chosen = [victim for victim in chosen if victim not in apart]
    if len(chosen) > 2 * simulation.context.policy.max_victims:
        return chosen
    for victim in reversed(chosen):
        simulation.reinstate([victim])
        if simulation.attempt() is None:
            simulation.remove([victim])
        else:
            chosen = [other for other in chosen if other is not victim]
    return chosen


class _Simulation:
    """Takes attempts off the working copies and puts them back."""

    def __init__(self, context: Context, plan: ShapePlan) -> None:
        self.context = context
        self.plan = plan
        self._removed: dict[int, RunningView] = {}

    def remove(self, attempts: Sequence[RunningView]) -> None:
        for attempt in attempts:
            self._removed[attempt.attempt_id] = attempt
            self.context.board.change_members(attempt.members, 1)
            self.context.ledger.remove(attempt)

    def reinstate(self, attempts: Sequence[RunningView]) -> None:
        for attempt in attempts:
            del self._removed[attempt.attempt_id]
            self.context.board.change_members(attempt.members, -1)
            self.context.ledger.reinstate(attempt)

    def move(self, victims: Sequence[RunningView], removed: int, wanted: int) -> None:
        """From the first `removed` of them removed to the first `wanted`."""
        if wanted > removed:
            self.remove(victims[removed:wanted])
        else:
            self.reinstate(victims[wanted:removed])

    def attempt(self) -> Plan | None:
        """Where the preemptor would go; nothing stays taken."""
        found = self.context.placer.place(self.plan, fresh=True)
        if found is not None:
            self.context.board.change_members(found.members, 1)
        return found

    def restore(self) -> None:
        self.reinstate(list(self._removed.values()))

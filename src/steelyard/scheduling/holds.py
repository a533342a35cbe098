"""Holds that stand when a cycle begins: places kept for attempts whose victims stop, or for headroom.

A hold is the proof of progress: a feasible placement of the preemptor, kept for it while its victims stop.
Without one nobody is evicted, and while one stands its attempt evicts nobody else. A higher priority may
take a hold over (`preemption`): the attempt goes back to where it waited, and nothing of it stays charged.
"""

from __future__ import annotations

from steelyard.scheduling.context import HOLD_TIMER, Context
from steelyard.scheduling.decisions import DropCause, DroppedHold
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import allocations_of
from steelyard.scheduling.views import HoldView


def settle_holds(context: Context) -> list[DroppedHold]:
    """Places the attempts whose places are free now and within their quotas, keeps the other holds where
    that makes sense. Free places are not enough: a victim is charged until its release is proven, also
    where the preemptor goes elsewhere."""
    dropped, kept = [], []
    running = context.snapshot.running
    # what starts meanwhile may count on the end of any victim: until then, short quota ends no hold
    others_end = any(victim in running for hold in context.snapshot.holds.values() for victim in hold.victims)
    charged, everything = _without_holds(context), Ledger(context.snapshot.trees, context.snapshot.usage)
    for waits, hold in _in_turn(context):
        cause = _drop_cause(context, hold)
        if (
            cause is None
            and not hold.item.standby
            and _is_answering(context, hold)
            and charged.may_charge(hold.charges)
            and (not waits or _is_harmless(everything, hold))
            and context.board.take_if_free(hold.members)
        ):
            charged.add(hold.charges)
            context.commit_hold(hold)
            continue
        if cause is None and not waits and not (others_end and not charged.may_charge(hold.charges)):
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


def _in_turn(context: Context) -> list[tuple[bool, HoldView]]:
    """(whether it still waits for somebody's end, hold): first those for which everybody has ended."""
    running = context.snapshot.running
    found = [
        (hold.item.standby or any(victim in running for victim in hold.victims), hold)
        for hold in context.snapshot.holds.values()
    ]
    found.sort(key=lambda each: (each[0], -each[1].shape.priority, each[1].since, each[1].attempt_id))
    return found


def _is_harmless(everything: Ledger, hold: HoldView) -> bool:
    """Whether a hold whose victims have not all ended may start on free places: only where no limit is passed
    with all holds and all victims charged, else it takes what was given up for another."""
    return all(
        everything.available(charge.tree, charge.node, charge.subject) >= 0
        for charge in hold.charges
        if charge.tree in everything.trees and charge.node in everything.trees[charge.tree].nodes
    )


def _without_holds(context: Context) -> Ledger:
    """What is charged now by those that hold something, or are kept it until they are wanted."""
    ledger = Ledger(context.snapshot.trees, context.snapshot.usage)
    for hold in context.snapshot.holds.values():
        if not hold.item.standby:
            ledger.add(hold.charges, -1)
    return ledger


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

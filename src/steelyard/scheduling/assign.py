"""Which of a queue's flavors an attempt takes: the walk through them, in the queue's order.

A queue with resource groups names the flavors it may use; a role's flavors are those of the group that has
its class, in the group's order. On each the attempt fits or would have to preempt, within the queue's nominal
quota or borrowing. A fit within nominal quota ends the walk. What else ends it, and which of two drawbacks
is the smaller one, is the queue's `FlavorFungibility` (after Kueue's flavor assigner, queueing.md 1.1).
Every attempt starts at the first flavor: nothing is remembered, so nobody is pinned to where it once failed.

A queue without groups takes any flavor that fits, in the request's order, else by name, and preempts where
none does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.model.policy import QUEUE_TREE, FlavorFungibility, Preference, ResourceGroup, Search
from steelyard.scheduling.context import Context
from steelyard.scheduling.placement import Plan, ShapePlan
from steelyard.scheduling.preemption import Pools, Proposal, propose
from steelyard.scheduling.views import Charge, PendingItem


@dataclass(frozen=True, slots=True)
class Option:
    """What one flavor offers: a placement (not taken), or a hold with evictions."""

    flavor: str
    plan: Plan | None
    proposal: Proposal | None
    borrows: bool


def choose(context: Context, pools: Pools, plan: ShapePlan, item: PendingItem) -> Plan | Proposal | None:
    """Where an attempt goes: a placement that is taken from the board, a hold that is not made yet, or None.

    It delays none of the reservations that are in force, unless a service is guaranteed it.
    """
    if not _groups(context, plan):
        found = _anywhere(context, plan, item)
        if found is not None or item.standby:
            return found
        return _proposed(context, pools, plan, item)
    option = _Walk(context, pools, plan, item).best()
    if option is None or option.plan is None:
        return option.proposal if option else None
    context.board.change_members(option.plan.members, -1)
    return option.plan


def _groups(context: Context, plan: ShapePlan) -> Sequence[ResourceGroup]:
    return context.rules.of(plan.shape.queue).groups


def _anywhere(context: Context, plan: ShapePlan, item: PendingItem) -> Plan | None:
    placer, reservations = context.placer, context.reservations
    placer.cut_short = False
    if not plan.roles or not context.ledger.passes(plan.checks):
        return None  # wherever it goes, and whatever is kept for others
    if not item.guaranteed and not reservations.may_admit(plan):
        return None
    for avoid in ((item.avoid, ()) if item.avoid else ((),)):
        for place in (placer.place_let, reservations.place_before):
            found = place(plan, avoid=avoid)
            if found is not None and (item.guaranteed or reservations.admits(plan, found)):
                return found
            if found is not None:
                context.board.change_members(found.members, 1)
    return None


def _proposed(context: Context, pools: Pools, plan: ShapePlan, item: PendingItem) -> Proposal | None:
    """A hold with evictions that delays no reservation; what a service is guaranteed comes before them."""
    proposal = propose(context, pools, plan, item)
    if proposal is None or item.guaranteed:
        return proposal
    hold, evictions, _ = proposal
    gone = [view for eviction in evictions for view in context.stops_by(eviction)]
    return proposal if context.reservations.admits(plan, Plan(hold.members, hold.charges), gone) else None


class _Walk:
    """One attempt's way through the flavors of its lead role."""

    def __init__(self, context: Context, pools: Pools, plan: ShapePlan, item: PendingItem) -> None:
        self.context = context
        self.pools = pools
        self.plan = plan
        self.item = item
        self.fungibility = context.rules.of(plan.shape.queue).fungibility

    def best(self) -> Option | None:
        """The option of the lowest rank among those walked; of equals the first."""
        options: list[Option] = []
        later: list[ShapePlan] = []  # would have to preempt, which is not looked into yet
        rules = self.fungibility
        for flavor in self.plan.lead.flavors if self.plan.roles else ():
            only = on_flavor(self.plan, flavor)
            option = self._fit(only, flavor)
            if option is None and rules.when_can_preempt is Search.TRY_NEXT:
                later.append(only)
                continue
            option = option or self._preempt(only)
            if option is not None:
                options.append(option)
                if ends_walk(rules, option):
                    break
        first = min(options, key=self._rank, default=None)
        if first is None or self._rank(first) > PREEMPTS:
            options += self._preempting(later)
        return min(options, key=self._rank, default=None)

    def _preempting(self, plans: Iterable[ShapePlan]) -> Iterable[Option]:
        for only in plans:
            option = self._preempt(only)
            if option is not None:
                yield option
                if not option.borrows:
                    return

    def _rank(self, option: Option) -> int:
        return rank(self.fungibility, option)

    def _fit(self, only: ShapePlan, flavor: str) -> Option | None:
        found = _anywhere(self.context, only, self.item)
        if found is None:
            return None
        self.context.board.change_members(found.members, 1)
        return Option(flavor, found, None, borrows(self.context, self.plan.shape.queue, found.charges))

    def _preempt(self, only: ShapePlan) -> Option | None:
        if self.item.standby:
            return None
        proposal = _proposed(self.context, self.pools, only, self.item)
        if proposal is None:
            return None
        hold, evictions, _ = proposal
        queue = self.plan.shape.queue
        freed = [
            charge
            for eviction in evictions
            if eviction.queue == queue
            for charge in self.context.snapshot.running[eviction.attempt_id].charges
        ]
        return Option(
            only.lead.flavors[0], None, proposal, borrows(self.context, queue, hold.charges, freed)
        )


#: Ranks of options; smaller is better. The two in the middle change places by preference.
FITS, PREEMPTS, BORROWS, PREEMPTS_AND_BORROWS = 0, 2, 3, 4


def rank(rules: FlavorFungibility, option: Option) -> int:
    """How good an option is; smaller is better."""
    if option.plan is None:
        return PREEMPTS_AND_BORROWS if option.borrows else PREEMPTS
    if not option.borrows:
        return FITS
    return 1 if rules.preference is Preference.BORROWING_OVER_PREEMPTION else BORROWS


def ends_walk(rules: FlavorFungibility, option: Option) -> bool:
    """Whether no further flavor is looked at."""
    if option.plan is not None and not option.borrows:
        return True
    may_preempt = option.plan is not None or rules.when_can_preempt is Search.MAY_STOP
    may_borrow = not option.borrows or rules.when_can_borrow is Search.MAY_STOP
    return may_preempt and may_borrow


def on_flavor(plan: ShapePlan, flavor: str) -> ShapePlan:
    """The same with the lead role on one flavor only."""
    lead = replace(plan.lead, flavors=(flavor,))
    return replace(plan, roles=(lead, *plan.roles[1:]))


def borrows(
    context: Context, queue: str, charges: Iterable[Charge], freed: Iterable[Charge] = ()
) -> bool:
    """Whether a queue that is charged this, and is given back what is freed, uses more than it owns."""
    tree = context.snapshot.trees.get(QUEUE_TREE)
    if tree is None:
        return False
    usage = context.ledger.worlds[0][QUEUE_TREE]
    back: dict[str, int] = {}
    for charge in freed:
        if charge.tree == QUEUE_TREE:
            back[charge.subject] = back.get(charge.subject, 0) + charge.quantity
    return any(
        usage.get((queue, item.subject), 0) - back.get(item.subject, 0) + item.quantity
        > tree.subtree(queue, item.subject)
        for item in charges
        if item.tree == QUEUE_TREE and tree.governs(item.subject)
    )

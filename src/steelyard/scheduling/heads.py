"""Heads that others may not pass: of a StrictFIFO queue, and those that are due and find no place.

A blocked head of a StrictFIFO queue keeps all behind it off the flavors it could go to; on others they go on.

What is due (it has waited half of its queue's starvation bound), could ever fit, is within its organisation's
limits and has no place on the timeline drains the flavors it could go to: what comes after it in the order
starts on them only within its own queue's nominal quota, and in the same queue not at all. So what becomes
free stays free until it is enough; of CPU and memory, too, where its devices alone would find a place.

Once all that came before it has started it starts within the longest run, where the order is by priority or
strict and nothing of a higher band or of others' own quota comes. By fair share it takes up to one longest
run more for each level of the tree on which it competes: the use of its own side on that level falls to
nothing, since what is due goes first on its side and keeps the others back, and whoever uses nothing has the
smallest share there is. What of the past counts is left out for what is due.

Neither does anything for a head that could never be placed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from steelyard.model.ids import render
from steelyard.model.policy import QUEUE_TREE, QueueingStrategy
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS
from steelyard.model.workloads import Shape
from steelyard.scheduling.barriers import WAKE_RELEASED
from steelyard.scheduling.context import Context
from steelyard.scheduling.decisions import ShapeReasons
from steelyard.scheduling.ever import Bounds, bounds_of
from steelyard.scheduling.explain import can_ever_fit
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.ranking import bounded
from steelyard.scheduling.views import PendingItem

#: Heads that drain in one cycle.
MAX_DRAINS = 8


@dataclass(frozen=True, slots=True)
class Head:
    """A blocked attempt and the flavors that wait for it."""

    shape: Shape
    item: PendingItem
    flavors: frozenset[str]


def without_cores(shape: Shape) -> Shape:
    """The devices of a shape alone."""
    roles = [
        (name, count, replace(asked, amounts=tuple(one for one in asked.amounts if one[0] in ACCELERATORS)))
        for name, count, asked in shape.roles
    ]
    kept = [number for number, (_, _, asked) in enumerate(roles) if asked.amounts]
    least = tuple(shape.least[number] for number in kept) if shape.least else ()
    return replace(
        shape, key=f"{shape.key}/devices", roles=tuple(roles[number] for number in kept), least=least
    )  # fmt: skip


class Heads:
    """Those of one cycle."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._bounds: Bounds | None = None
        self.draining: list[Head] = []
        self.strict: dict[str, Head] = {}  # the first of each queue
        self._kept_back: dict[str, Head] = {}  # by the shape that may not pass
        self._cores: dict[tuple[str, ...], frozenset[str]] = {}  # of the nodes with such devices
        self.behind: set[str] = set()  # shapes behind a strict head, as the order found them

    def is_strict(self, shape: Shape, item: PendingItem) -> bool:
        """True when nothing of its queue may pass this blocked head."""
        rules = self._context.rules.of(shape.queue)
        if rules.strategy is not QueueingStrategy.STRICT_FIFO or item.standby or not self._may_ever(shape):
            return False
        self.strict.setdefault(shape.queue, self._head(shape, item))
        return True

    def drain(self, shape: Shape, item: PendingItem) -> None:
        """Lets a blocked head that is due collect what becomes free."""
        context = self._context
        if len(self.draining) >= MAX_DRAINS or item.standby or item.guaranteed:
            return
        if not context.turns.is_due(shape.queue, item) or not self._is_within_organisation(shape):
            return
        if self._may_ever(shape):
            head = self._head(shape, item)
            self.draining.append(replace(head, flavors=head.flavors | self._cores_beside(shape)))

    def beside(self, plan: ShapePlan, item: PendingItem) -> ShapePlan:
        """The plan without the flavors on which it would pass a head that drains."""
        if not self.draining or item.guaranteed or item.standby or not plan.roles:
            return plan
        closed: set[str] = set()
        for head in self.draining:
            if head.flavors.isdisjoint(plan.lead.flavors) or self._may_pass(plan.shape, head):
                continue
            closed |= head.flavors
            self._kept_back.setdefault(plan.shape.key, head)
        if not closed:
            return plan
        left = tuple(flavor for flavor in plan.lead.flavors if flavor not in closed)
        return replace(plan, roles=(replace(plan.lead, flavors=left), *plan.roles[1:]))

    def explained(self, shape: Shape, found: ShapeReasons) -> ShapeReasons:
        """The reasons of a shape with the head that it may not pass, where there is one."""
        reason = self._reason(shape)
        if reason is None:
            return found
        others = [other for other in found.reasons if other.code != ReasonCode.PENDING_EVALUATION]
        return ShapeReasons(bounded((reason, *others)), any(other.approximate for other in others))

    def _reason(self, shape: Shape) -> Reason | None:
        strict = self.strict.get(shape.queue)
        if strict is not None and shape.key in self.behind:
            return _reason(ReasonCode.BEHIND_HEAD, strict)
        head = self._kept_back.get(shape.key)
        return None if head is None else _reason(ReasonCode.DRAINING, head)

    def _head(self, shape: Shape, item: PendingItem) -> Head:
        plan = self._context.plan(shape)
        return Head(shape, item, frozenset((*plan.lead.flavors, *plan.lead.silent)))

    def _cores_beside(self, shape: Shape) -> frozenset[str]:
        """CPU and memory of the nodes with its devices, where these alone would find a place: then there is
        too little of CPU or memory, and it collects them, too."""
        context, lead = self._context, self._context.plan(shape).lead
        if lead.need.primary not in ACCELERATORS:
            return frozenset()
        bare = context.plan(without_cores(shape))
        for flavor in bare.lead.flavors if bare.roles else ():
            found = context.placer.place_with(bare, flavor, fresh=True, check_quota=False)
            if found is not None:
                context.board.change_members(found.members, 1)
                return self._cores_of(lead.flavors)
        return frozenset()

    def _cores_of(self, flavors: Collection[str]) -> frozenset[str]:
        known = self._cores.get((*flavors,))
        if known is None:
            snapshot = self._context.snapshot
            cores = {name for name, view in snapshot.flavors.items() if view.device_class not in ACCELERATORS}
            nodes = (node.totals for node in snapshot.nodes.values())
            found = {name for totals in nodes if not totals.keys().isdisjoint(flavors) for name in totals}
            known = self._cores[*flavors,] = frozenset(cores & found)
        return known

    def _may_pass(self, shape: Shape, head: Head) -> bool:
        """Another queue may use what it owns, whoever waits."""
        turns = self._context.turns
        shares = turns.shares
        if shape.queue == head.shape.queue or shares is None or shape.queue not in shares.tree.nodes:
            return False
        asked = turns.asked(shape)
        if not asked:
            return False
        usage = self._context.ledger.worlds[-1][QUEUE_TREE]
        added = shares.flows(usage, shape.queue, asked).get(shape.queue, {})
        return not shares.borrows(usage, shape.queue, added)

    def _is_within_organisation(self, shape: Shape) -> bool:
        asks = [ask for ask in self._context.plan(shape).class_asks if ask.tree != QUEUE_TREE]
        return self._context.ledger.fits(asks)

    def _may_ever(self, shape: Shape) -> bool:
        """Kept with the plan for as long as the nodes stay the same: strict heads are asked every cycle."""
        context = self._context
        if self._bounds is None:
            self._bounds = bounds_of(context.snapshot.nodes, context.snapshot.flavors)
        plan = context.plan(shape)
        if plan.may_ever is None or plan.may_ever[0] is not self._bounds:
            may = not context.is_barred(shape) and bool(plan.roles)
            may = may and not can_ever_fit(context.snapshot, context.policy, shape, self._bounds)
            plan.may_ever = self._bounds, may
        return plan.may_ever[1]


def _reason(code: ReasonCode, head: Head) -> Reason:
    params: dict[str, str | int | None] = {
        "workload": render("workload", head.item.workload_id), "waits_since": head.item.submitted,
    }  # fmt: skip
    return Reason(code, "queue", "queue", head.shape.queue, wakes_on=(WAKE_RELEASED,), params=params)

"""Why a shape does not start: all reasons that block, the binding one first.

Made by the same parts that decide: the same ledger and board, as they stand at the end of the cycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from steelyard.model.ids import render
from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE, OnExceed, Policy
from steelyard.model.reasons import Holder, Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import Shape
from steelyard.scheduling.barriers import (
    WAKE_CLUSTER,
    WAKE_LIMIT,
    WAKE_RELEASED,
    WAKE_SCALED,
    WAKE_TIME,
    barriers,
)
from steelyard.scheduling.board import allocation_room
from steelyard.scheduling.capacity import Capacity
from steelyard.scheduling.context import Context
from steelyard.scheduling.decisions import ShapeReasons
from steelyard.scheduling.ever import Bounds, bounds_of, never_reasons, surely_used
from steelyard.scheduling.holders import Holders
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import (
    Plan,
    ShapePlan,
    allocations_of,
    flavor_amounts,
    flavor_asks,
    prepare,
)
from steelyard.scheduling.proportion import excess_reason
from steelyard.scheduling.quota import QuotaTree, Shortfall, shortfalls, shown
from steelyard.scheduling.ranking import bounded, hopeless_of
from steelyard.scheduling.rules import rules_of
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.subjects import Counting, held_by
from steelyard.scheduling.views import HoldView, PendingItem

ORDER = (*ACCELERATORS, DeviceClass.CPU, DeviceClass.MEMORY)


class Explainer:
    """Makes reasons from a cycle's final state."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.holders = Holders(
            context.snapshot, context.ledger, context.holds.values(), context.placements, context.now
        )
        self.capacity = Capacity(context, self.holders)

    def shape(self, shape: Shape) -> ShapeReasons:
        """All that blocks a shape now."""
        context = self.context
        plan = context.plan(shape)
        reasons = barriers(context.snapshot, plan)
        reasons += self._class_quota(plan)
        by_flavor = self._flavors(plan)
        if all(by_flavor.values()):  # one free flavor, and capacity does not block
            reasons += [reason for found in by_flavor.values() for reason in found]
            reasons += _silent(context.snapshot, plan)
            reasons += [reason for _, reason in plan.lead.shut] if by_flavor else []
            if not by_flavor:
                reasons += never_reasons(self.capacity.bounds, plan)
        excess = context.excess.get(shape.key)
        if excess is not None:
            reasons.append(excess_reason(plan, excess))
        if not reasons:
            reasons = [self._reserved_for(plan) or pending_evaluation()]
        approximate = shape.key in context.approximate or any(reason.approximate for reason in reasons)
        return ShapeReasons(bounded(reasons, hopeless_of(by_flavor)), approximate)

    def _class_quota(self, plan: ShapePlan) -> list[Reason]:
        return [
            reason
            for ask in plan.class_asks
            for reason in quota_reasons(
                self.context.snapshot, self.holders, ask.tree, ask.node, ask.subject, ask.quantity
            )
        ]

    def _flavors(self, plan: ShapePlan) -> dict[str, list[Reason]]:
        if not plan.roles:
            return {}
        return {name: self._flavor(plan, name) for name in plan.lead.flavors}

    def _flavor(self, plan: ShapePlan, flavor: str) -> list[Reason]:
        context = self.context
        found = context.placer.place_with(plan, flavor, fresh=True, check_quota=False)
        if context.placer.cut_short:
            context.approximate.add(plan.shape.key)
        if found is None:
            reasons = self.capacity.reasons(plan, flavor)
            used = surely_used(self.capacity.bounds, plan, flavor)
        else:
            context.board.change_members(found.members, 1)
            used = flavor_amounts(found.members)
            reasons = [] if plan.is_as_asked(used) else self._granted_quota(plan, found)
        return reasons + _flavor_quota(context.snapshot, self.holders, plan, used)

    def _granted_quota(self, plan: ShapePlan, found: Plan) -> list[Reason]:
        """What limits on measures have against what would be granted beyond what is asked for."""
        held = held_by(item for _, item in allocations_of(found.members))
        return [
            reason
            for one in plan.counting.measured_at(plan.nodes, held.flavors, held.parts)
            for reason in quota_reasons(self.context.snapshot, self.holders, *one)
        ]

    def _reserved_for(self, plan: ShapePlan) -> Reason | None:
        """It fits now, and would delay somebody who has a place on the timeline."""
        made = self.context.reservations.in_the_way_of(plan)
        if made is None:
            return None
        primary = plan.lead.need.primary
        amount = sum(
            allocation.quantity
            for _, allocation in allocations_of(made.members)
            if allocation.device_class is primary
        )
        owner = Holder(
            "workload", render("workload", made.workload_id), amount, None, made.project, made.queue
        )
        params: dict[str, str | int | None] = {"until": made.starts_at, "ends_at": made.ends_at}
        return Reason(
            ReasonCode.RESERVED_FOR, "placement", resource=primary.value, holders=(owner,),
            wakes_on=(WAKE_RELEASED, WAKE_TIME), params=params,
        )

    def hold(self, hold: HoldView) -> Reason:
        """What a hold still waits for."""
        return hold_reason(self.context, self.holders, hold)


def quota_reasons(
    snapshot: Snapshot,
    holders: Holders,
    tree: str,
    node: str,
    subject: str,
    quantity: int,
    only_refusing: bool = False,
) -> list[Reason]:
    """A reason for each node of the path whose own limit stands in the way."""
    quotas = snapshot.trees[tree]
    if not quotas.governs(subject):
        return []
    never = {short.node for short in shortfalls(quotas, {}, node, subject, quantity)}
    reasons = []
    for world, short in _worst(quotas, holders, tree, node, subject, quantity):
        limit = quotas.limits.get((short.node, subject))
        refuses = limit is not None and limit.on_exceed is OnExceed.REFUSE
        if only_refusing and not refuses:
            continue
        code = ReasonCode.OVER_LIMIT if refuses else ReasonCode.WAITING_FOR_QUOTA
        used, short_by = short.used, short.short_by
        owners: tuple[Holder, ...] = ()
        if short.node in never:
            code = ReasonCode.EXCEEDS_MAX_QUOTA
            used, short_by = 0, short.requested - short.limit
        else:
            owners = holders.of_quota(world, tree, short.node, subject, short_by)
        flavor, resource = subject_of(snapshot, subject)
        reasons.append(
            Reason(
                code, "quota", quotas.nodes[short.node].kind, short.node, resource, flavor,
                shown(short.limit), used, short.requested, short_by, owners,
                (WAKE_LIMIT,) if code is ReasonCode.EXCEEDS_MAX_QUOTA else (WAKE_RELEASED, WAKE_LIMIT),
                params={"tree": tree},
            )
        )
    return reasons


def _worst(
    quotas: QuotaTree, holders: Holders, tree: str, node: str, subject: str, quantity: int
) -> list[tuple[int, Shortfall]]:
    """The shortfalls, each from the world in which it is larger, along the path."""
    worst: dict[str, tuple[int, Shortfall]] = {}
    for world, usages in enumerate(holders.worlds):
        for short in shortfalls(quotas, usages[tree], node, subject, quantity):
            if short.node not in worst or worst[short.node][1].short_by < short.short_by:
                worst[short.node] = (world, short)
    return [worst[name] for name in quotas.path(node) if name in worst]


def subject_of(snapshot: Snapshot, subject: str) -> tuple[str | None, str]:
    """(flavor, class or measure of a class) of a quota's subject."""
    if not subject.startswith(FLAVOR_PREFIX):
        return None, subject
    name = subject.removeprefix(FLAVOR_PREFIX)
    flavor = snapshot.flavors.get(name)
    return name, flavor.device_class.value if flavor else DeviceClass.OTHER.value


def _silent(snapshot: Snapshot, plan: ShapePlan) -> list[Reason]:
    reasons = []
    for name in plan.lead.silent if plan.roles else ():
        cluster = snapshot.clusters.get(snapshot.flavors[name].cluster)
        params: dict[str, str | int | None] = {
            "cluster": snapshot.flavors[name].cluster,
            "observed_at": cluster.observed_at if cluster else None,
        }
        reasons.append(
            Reason(
                ReasonCode.CLUSTER_UNREACHABLE, "placement", "cluster", snapshot.flavors[name].cluster,
                plan.lead.need.primary.value, name, wakes_on=(WAKE_CLUSTER,), params=params,
            )
        )
    return reasons


def hold_reason(context: Context, holders: Holders, hold: HoldView) -> Reason:
    """waiting-for-preempted-workloads: what is not free yet of the planned places, and who has it. Standby
    waits for nothing but to be wanted."""
    if hold.item.standby:
        return Reason(ReasonCode.STANDBY, "placement", wakes_on=(WAKE_SCALED,))
    lacking: dict[tuple[int, str, int | None], tuple[DeviceClass, int]] = {}
    for member, allocation in allocations_of(hold.members):
        room = allocation_room(context.board.state(member.node_id), allocation)
        if room < 0:
            place = (member.node_id, allocation.flavor, allocation.device_id)
            before = lacking.get(place, (allocation.device_class, 0))[1]
            lacking[place] = (allocation.device_class, min(-room, before + allocation.quantity))
    short: dict[DeviceClass, int] = {}
    for device_class, quantity in lacking.values():
        short[device_class] = short.get(device_class, 0) + quantity
    victims = [
        context.endable[attempt] for attempt in hold.victims if attempt in context.endable
    ]
    params: dict[str, str | int | None] = {
        "victims": ",".join(render("workload", victim.workload_id) for victim in victims[:8]),
        "victim_count": len(victims),
    }
    primary = next((cls for cls in ORDER if cls in short), None)
    if primary is None:
        return Reason(
            ReasonCode.WAITING_FOR_PREEMPTED, "preemption", wakes_on=(WAKE_RELEASED,), params=params
        )
    places = [place for place, (device_class, _) in lacking.items() if device_class is primary]
    names = {flavor for _, flavor, _ in places}
    owners = holders.of_places(places, short[primary], min(names))
    return Reason(
        ReasonCode.WAITING_FOR_PREEMPTED, "preemption", resource=primary.value,
        flavor=next(iter(names)) if len(names) == 1 else None,
        requested=hold.shape.totals().get(primary), short_by=short[primary], holders=owners,
        wakes_on=(WAKE_RELEASED,), params=params,
    )


def backoff_reason(item: PendingItem) -> Reason:
    """Not looked at before its time."""
    at = max(item.not_before, item.eligible_at)
    return Reason(ReasonCode.BACKOFF, "queue", wakes_on=(WAKE_TIME,), params={"until": at})


def pending_evaluation() -> Reason:
    """Not looked at yet; the next cycle goes on."""
    return Reason(ReasonCode.PENDING_EVALUATION, "queue", wakes_on=(WAKE_TIME,), approximate=True)


def can_ever_fit(
    snapshot: Snapshot, policy: Policy, shape: Shape, bounds: Bounds | None = None
) -> tuple[Reason, ...]:
    """Why a shape could never start, even with nothing else running; empty when it may.

    Cordoned nodes and clusters that don't answer count as there. Only what is certain is said.
    `bounds` may be given where many shapes are asked about while the nodes stay the same.
    """
    groups = rules_of(policy, snapshot.trees.get(QUEUE_TREE), shape.queue).groups
    bounds = bounds or bounds_of(snapshot.nodes, snapshot.flavors)
    counting = Counting(snapshot.trees, snapshot.flavors, policy)
    plan = prepare(
        snapshot, frozenset(snapshot.flavors), shape, shut_too=True, groups=groups, counting=counting
    )
    nobody = Holders(replace(snapshot, running={}), Ledger(snapshot.trees, {}), ())
    reasons = [reason for reason in barriers(snapshot, plan) if reason.code != ReasonCode.QUEUE_STOPPED]
    for ask in plan.class_asks:
        reasons += quota_reasons(snapshot, nobody, ask.tree, ask.node, ask.subject, ask.quantity)
    names = plan.lead.flavors if plan.roles else ()
    by_flavor = {name: _never_on(snapshot, bounds, nobody, plan, name) for name in names}
    if all(by_flavor.values()):
        reasons += [reason for found in by_flavor.values() for reason in found]
        if not by_flavor:
            reasons += never_reasons(bounds, plan)
    return bounded(reasons)


def _never_on(
    snapshot: Snapshot, bounds: Bounds, nobody: Holders, plan: ShapePlan, flavor: str
) -> list[Reason]:
    used = surely_used(bounds, plan, flavor)
    return never_reasons(bounds, plan, flavor) + _flavor_quota(snapshot, nobody, plan, used)


def _flavor_quota(
    snapshot: Snapshot,
    holders: Holders,
    plan: ShapePlan,
    used: Mapping[str, int],
    only_refusing: bool = False,
) -> list[Reason]:
    """What limits on the flavors themselves, and on what depends on them, have against it."""
    return [
        reason
        for ask in flavor_asks(snapshot.trees, plan, dict(sorted(used.items())))
        for reason in quota_reasons(
            snapshot, holders, ask.tree, ask.node, ask.subject, ask.quantity, only_refusing
        )
    ]


def shut_now(snapshot: Snapshot, shape: Shape) -> tuple[Reason, ...]:
    """The pools that are closed, where the gang has no other place that would take it; else empty."""
    if all(pool.shut is None for pool in snapshot.pools.values()):
        return ()
    plan = prepare(snapshot, frozenset(snapshot.flavors), shape)
    bounds = bounds_of(snapshot.nodes, snapshot.flavors)
    names: tuple[str | None, ...] = plan.lead.flavors if plan.roles else ()
    found = [never_reasons(bounds, plan, name) for name in names or (None,)]
    if not all(found):
        return ()
    return bounded(
        reason for reasons in found for reason in reasons if reason.code == ReasonCode.POOL_CLOSED
    )


def over_refusing_limit(
    snapshot: Snapshot, shape: Shape, policy: Policy | None = None
) -> tuple[Reason, ...]:
    """The limits with `on_exceed: refuse` that the shape would exceed now; empty when there is none.

    A flavor's limit counts only when every flavor the shape allows has one that refuses.
    """
    policy = policy or Policy(0)
    counting = Counting(snapshot.trees, snapshot.flavors, policy)
    groups = rules_of(policy, snapshot.trees.get(QUEUE_TREE), shape.queue).groups
    plan = prepare(snapshot, frozenset(snapshot.flavors), shape, groups=groups, counting=counting)
    ledger = Ledger(snapshot.trees, snapshot.usage)
    ledger.keep(snapshot.holds.values(), snapshot.running)
    holders = Holders(snapshot, ledger, snapshot.holds.values())
    reasons: list[Reason] = []
    for ask in plan.class_asks:
        reasons += quota_reasons(
            snapshot, holders, ask.tree, ask.node, ask.subject, ask.quantity, only_refusing=True
        )
    by_flavor = []
    for flavor in plan.lead.flavors if plan.roles else ():
        used = {flavor: plan.lead.count * plan.lead.need.amount}
        by_flavor.append(_flavor_quota(snapshot, holders, plan, used, only_refusing=True))
    if all(by_flavor):
        reasons += [reason for each in by_flavor for reason in each]
    return bounded(reasons)

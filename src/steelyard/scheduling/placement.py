"""Where a gang goes: all of its members or none, first fit over flavors in order and nodes by id.

An attempt stays in one cluster, a role on one accelerator flavor; all that a member needs comes from
one node. The lead role (the first that asks for an accelerator, else the first) goes through its
flavors in the request's order, else by name; the other roles follow within the lead's cluster.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Self

from steelyard.model.policy import FLAVOR_PREFIX, Policy, ResourceGroup
from steelyard.model.reasons import Reason
from steelyard.model.resources import DeviceClass
from steelyard.model.units import WHOLE_DEVICE
from steelyard.model.workloads import AllocationPlan, MemberPlan, Shape
from steelyard.scheduling.admission import misfits, runs_on, shut_reason
from steelyard.scheduling.board import Board, Need, need_of
from steelyard.scheduling.ledger import Ask, Check, Ledger, made_ready
from steelyard.scheduling.node_choice import NodeChoice
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.subjects import Counting, Held, held_by, own_nodes, parts_of
from steelyard.scheduling.topology import Outside
from steelyard.scheduling.views import Charge, ClusterView, FlavorView


@dataclass(frozen=True, slots=True)
class RoleNeed:
    """One role of a shape: its members' need and the flavors that suit it, in order."""

    index: int  # in the shape's order
    name: str
    count: int  # of members; the fewest that will do
    need: Need
    flavors: tuple[str, ...]  # usable ones
    silent: tuple[str, ...]  # of clusters that don't answer, or were not observed lately
    barred: tuple[tuple[str, Reason], ...] = ()  # by cluster, why pools with such devices don't take it
    shut: tuple[tuple[str, Reason], ...] = ()  # pools that would take it and let nothing new in now
    most: int = 0  # members it would take, if there is room for more than `count`


@dataclass(frozen=True, slots=True)
class Terms:
    """What follows from how much an attempt would use of which flavors."""

    checks: tuple[Check, ...]  # of the limits on them
    charges: tuple[Charge, ...]
    is_as_asked: bool  # no part of a device is larger than was asked for


@dataclass(slots=True)
class ShapePlan:
    """A shape made ready for one cycle: computed once, used for each of its attempts."""

    shape: Shape
    roles: tuple[RoleNeed, ...]  # in the order in which they are placed
    nodes: tuple[tuple[str, str], ...]  # (tree, own node) that it is charged to
    amounts: Mapping[DeviceClass, int]
    class_asks: tuple[Ask, ...]
    counting: Counting
    is_barred: bool | None = None  # whatever is free; None: nobody has asked yet
    _checks: tuple[Check, ...] | None = None
    _known: dict[tuple[tuple[str, int], ...], Terms] = field(default_factory=dict)

    @property
    def checks(self) -> tuple[Check, ...]:
        """`class_asks` made ready."""
        if self._checks is None:
            self._checks = made_ready(self.counting.trees, self.class_asks)
        return self._checks

    @property
    def lead(self) -> RoleNeed:
        """The role whose flavor decides the cluster."""
        return self.roles[0]

    def is_as_asked(self, used: Mapping[str, int]) -> bool:
        """False where parts of devices were granted larger than they were asked for."""
        return sum(used.values()) == sum(self.amounts.values())

    def on(self, used: Mapping[str, int]) -> Terms:
        """What follows where an attempt would use so much of these flavors; made once for each such use."""
        key = (*used.items(),)
        known = self._known.get(key)
        if known is None:
            trees = self.counting.trees
            asks = (*flavor_asks(trees, self, used), *self.granted_asks(used))
            checks = made_ready(trees, asks)
            known = self._known[key] = Terms(checks, charges_of(self, used), self.is_as_asked(used))
        return known

    def granted_asks(self, used: Mapping[str, int]) -> list[Ask]:
        """The quota checks on classes of which more was granted than asked for."""
        granted = self.counting.by_class(used)
        more = {cls: amount for cls, amount in granted.items() if amount > self.amounts.get(cls, 0)}
        return [
            Ask(tree, node, cls.value, amount)
            for tree, node in self.nodes
            for cls, amount in more.items()
            if self.counting.trees[tree].governs(cls.value)
        ]


@dataclass(frozen=True, slots=True)
class Plan:
    """A feasible placement, already taken from the board. Its charges are not in the ledger yet."""

    members: tuple[MemberPlan, ...]
    charges: tuple[Charge, ...]


def answering_clusters(clusters: Mapping[str, ClusterView], bound: int, now: int) -> frozenset[str]:
    """Clusters that answer and whose observation is not older than the bound."""
    return frozenset(
        name
        for name, cluster in clusters.items()
        if cluster.reachable and cluster.observed_at is not None and now - cluster.observed_at <= bound
    )


def matching_flavors(flavors: Mapping[str, FlavorView], need: Need) -> list[str]:
    """The flavors a request allows, in its order, else by name. Only ever of the class it asks for."""
    request = need.request
    names: Iterable[str] = request.flavors or sorted(flavors)
    matching = []
    for name in names:
        flavor = flavors.get(name)
        if flavor is None or flavor.device_class is not need.primary or name in matching:
            continue
        if request.models and flavor.model not in request.models:
            continue
        if request.clusters and flavor.cluster not in request.clusters:
            continue
        if need.memory > (flavor.memory or 0):
            continue
        matching.append(name)
    return matching


def admitted_flavors(
    snapshot: Snapshot, shape: Shape, need: Need, shut_too: bool = False
) -> tuple[list[str], tuple[tuple[str, Reason], ...], tuple[tuple[str, Reason], ...]]:
    """The flavors whose pools let the request in; by cluster, why the others don't, and what is only shut."""
    allowed: list[str] = []
    barred: dict[str, list[tuple[str, Reason]]] = {}
    shut: dict[str, tuple[str, Reason]] = {}
    for name in matching_flavors(snapshot.flavors, need):
        flavor = snapshot.flavors[name]
        pool = snapshot.pools.get(flavor.pool or "")
        if pool is None:
            allowed.append(name)
        elif found := misfits(pool, snapshot.pools, shape, need.request, flavor):
            barred[pool.name] = [(pool.cluster, reason) for reason in found]
        elif pool.shut is not None and not shut_too:
            shut[pool.name] = (pool.cluster, shut_reason(pool, flavor.device_class))
        else:
            allowed.append(name)
    return allowed, tuple(entry for found in barred.values() for entry in found), tuple(shut.values())


def in_order(groups: Iterable[ResourceGroup], need: Need, names: list[str]) -> list[str]:
    """Those of a need's flavors that its queue names for the class, in the queue's order; all, if it names
    none."""
    group = next((group for group in groups if need.primary.value in group.classes), None)
    return names if group is None else [name for name in group.flavors if name in names]


def prepare(
    snapshot: Snapshot,
    usable: frozenset[str],
    shape: Shape,
    *,
    shut_too: bool = False,
    groups: Iterable[ResourceGroup] = (),
    counting: Counting | None = None,
) -> ShapePlan:
    """What a cycle needs to know of a shape. `shut_too`: pools that let nothing new in count as open.
    `groups` are those of its queue. Without `counting` every model counts as one."""
    roles = []
    for index, (name, count, request) in enumerate(shape.roles):
        need = need_of(request)
        allowed, barred, shut = admitted_flavors(snapshot, shape, need, shut_too)
        allowed = in_order(groups, need, [name for name in allowed if runs_on(shape, snapshot.flavors[name])])
        fit = tuple(flavor for flavor in allowed if flavor in usable)
        silent = tuple(flavor for flavor in allowed if flavor not in usable)
        fewest = shape.least[index] if shape.least else count
        roles.append(RoleNeed(index, name, fewest, need, fit, silent, barred, shut, count))
    roles.sort(key=lambda role: not role.need.is_accelerated)
    counting = counting or Counting(snapshot.trees, snapshot.flavors, Policy(0))
    return counted(shape, tuple(roles), own_nodes(snapshot.trees, shape), counting)


def counted(
    shape: Shape,
    roles: tuple[RoleNeed, ...],
    nodes: tuple[tuple[str, str], ...],
    counting: Counting,
) -> ShapePlan:
    """A plan for these roles with their counts: what all of it asks for together."""
    totals: dict[DeviceClass, int] = {}
    for role in roles:
        for cls, amount in role.need.amounts:
            totals[cls] = totals.get(cls, 0) + amount * role.count
    amounts = {cls: amount for cls, amount in sorted(totals.items()) if amount}
    asks = [
        Ask(tree, node, cls.value, amount)
        for tree, node in nodes
        for cls, amount in amounts.items()
        if counting.trees[tree].governs(cls.value)
    ]
    if not counting.is_plain:
        parts = parts_of((cls, n, role.count) for role in roles for cls, n in role.need.amounts)
        asks += [Ask(*one) for one in counting.measured_at(nodes, {}, parts)]
    return ShapePlan(shape, roles, nodes, amounts, tuple(asks), counting)


class Placer:
    """First fit with a memory: a node that could not hold a need is not asked again in a cycle.

    That is sound because within a cycle nothing becomes free. A simulation, in which victims give
    back, passes `fresh` and neither uses nor leaves such memory.
    """

    def __init__(
        self, board: Board, ledger: Ledger, policy: Policy, choice: NodeChoice | None = None
    ) -> None:
        self.board = board
        self.ledger = ledger
        self.policy = policy
        self.choice = choice  # None: the first node that fits
        self.max_nodes = policy.max_nodes
        self.cut_short = False  # the last search met the bound on nodes
        self._cursors: dict[tuple[Need, str], int] = {}

    def beside(self, board: Board, ledger: Ledger) -> Self:
        """The same on other working copies."""
        choice = None if self.choice is None else self.choice.beside(board)
        return type(self)(board, ledger, self.policy, choice)

    def may_fit(self, plan: ShapePlan) -> bool:
        """A cheap necessary test: whether the limits let an attempt start, wherever it goes."""
        self.cut_short = False
        if not plan.roles or not self.ledger.passes(plan.checks):
            return False
        lead = plan.lead
        return any(self.flavor_fits(plan, {name: lead.count * lead.need.amount}) for name in lead.flavors)

    def place(self, plan: ShapePlan, fresh: bool = False, avoid: Collection[int] = ()) -> Plan | None:
        """Takes places for one attempt, or changes nothing. With `avoid`, on none of these nodes."""
        self.cut_short = False
        if not plan.roles or not self.ledger.passes(plan.checks):
            return None
        for flavor in self._in_order(plan.lead):
            if self.flavor_fits(plan, {flavor: plan.lead.count * plan.lead.need.amount}):
                found = self.place_with(plan, flavor, fresh or bool(avoid), avoid=avoid)
                if found is not None:
                    return found
        return None

    def _in_order(self, lead: RoleNeed) -> Iterable[str]:
        """The lead's flavors as the request has them; where it names none, by the best place of each."""
        if self.choice is None or len(lead.flavors) < 2 or lead.need.request.flavors:
            return lead.flavors
        return self.choice.flavors(lead.need, lead.flavors)

    def place_with(
        self,
        plan: ShapePlan,
        flavor: str,
        fresh: bool = False,
        check_quota: bool = True,
        avoid: Collection[int] = (),
    ) -> Plan | None:
        """Takes places with the lead role on one flavor."""
        moved: dict[tuple[Need, str], int] | None = None if fresh else {}
        members = self._gang(plan, flavor, moved, avoid)
        if members is None:
            return None
        terms = plan.on(flavor_amounts(members))
        granted = None if terms.is_as_asked else held_by(item for _, item in allocations_of(members))
        if check_quota and not (self.ledger.passes(terms.checks) and self._measures_fit(plan, granted)):
            self.board.change_members(members, 1)
            return None
        self._cursors.update(moved or {})
        if granted is None:
            return Plan(members, terms.charges)
        return Plan(members, plan.counting.charges(plan.nodes, granted))

    def _measures_fit(self, plan: ShapePlan, granted: Held | None) -> bool:
        """False when what was granted beyond what was asked for is above a limit on a measure."""
        if granted is None or plan.counting.is_plain:
            return True
        beside = plan.counting.measured_at(plan.nodes, granted.flavors, granted.parts)
        return self.ledger.fits(Ask(*one) for one in beside)

    def flavor_fits(self, plan: ShapePlan, used: Mapping[str, int]) -> bool:
        """True when the limits on the flavors themselves allow it."""
        return self.ledger.passes(plan.on(used).checks)

    def _gang(
        self,
        plan: ShapePlan,
        lead_flavor: str,
        moved: dict[tuple[Need, str], int] | None,
        avoid: Collection[int],
    ) -> tuple[MemberPlan, ...] | None:
        """`moved` takes the cursors to keep if the gang is placed; None in a simulation."""
        cluster = self.board.flavors[lead_flavor].cluster
        taken: dict[int, list[MemberPlan]] = {}
        for role in plan.roles:
            flavors = (lead_flavor,) if role is plan.lead else self.within(role, cluster)
            for flavor in flavors:
                placed = self.role(role, flavor, cluster, moved, not taken, avoid)
                if placed is not None:
                    taken[role.index] = placed
                    break
            else:
                for members in taken.values():
                    self.board.change_members(members, 1)
                return None
        return tuple(member for index in sorted(taken) for member in taken[index])

    def nodes_of(self, flavor: str, avoid: Collection[int]) -> Sequence[int]:
        """The nodes that are looked at for a flavor, in order; those to be avoided may be among them."""
        return avoid.nodes(flavor) if isinstance(avoid, Outside) else self.board.order(flavor)

    def within(self, role: RoleNeed, cluster: str) -> list[str]:
        """The role's flavors in one cluster, in order."""
        return [name for name in role.flavors if self.board.flavors[name].cluster == cluster]

    def role(
        self,
        role: RoleNeed,
        flavor: str,
        cluster: str,
        moved: dict[tuple[Need, str], int] | None = None,
        first: bool = False,
        avoid: Collection[int] = (),
    ) -> list[MemberPlan] | None:
        """Takes places for all members of one role, or for none. `first`: nothing of the gang is taken."""
        need, board = role.need, self.board
        if board.free(flavor) < need.amount * role.count:
            return None
        if self.choice is not None:
            return self._by_score(role, flavor, cluster, avoid)
        order = self.nodes_of(flavor, avoid)
        key = (need, flavor)
        start = 0 if moved is None else moved.get(key, self._cursors.get(key, 0))
        members: list[MemberPlan] = []
        at, looks = start, 0
        is_whole = order is board.order(flavor)  # else a part of it
        whole, part = divmod(need.amount, WHOLE_DEVICE) if need.is_accelerated else (0, need.amount)
        while len(members) < role.count and at < len(order):
            if is_whole and not board.may_hold(order[at], flavor, whole, part):
                at = board.room(flavor).first(at, whole, part)  # the next that may, whatever else it lacks
                if at == len(order):
                    break
            looks += 1
            if looks > self.max_nodes + role.count:
                self.cut_short = True
                break
            allocations = None
            if order[at] not in avoid:
                allocations = board.take_member(order[at], need, flavor)
            if allocations is None:
                at += 1
                continue
            members.append(MemberPlan(role.name, len(members), cluster, order[at], allocations))
        if len(members) == role.count:
            if moved is not None:
                moved[key] = at
            return members
        board.change_members(members, 1)
        if first and not members and moved is not None:
            self._cursors[key] = at  # nothing was taken before it: these nodes can't hold one at all
        return None


    def _by_score(
        self, role: RoleNeed, flavor: str, cluster: str, avoid: Collection[int]
    ) -> list[MemberPlan] | None:
        """All members of a role, one after the other on the node that is best for it."""
        assert self.choice is not None
        members: list[MemberPlan] = []
        flavors = role.flavors if flavor in role.flavors else (flavor,)
        while len(members) < role.count:
            places = self.choice.places(role.need, flavors, flavor, avoid)
            for node, left in islice(places, self.max_nodes):
                allocations = self.board.take_member(node, role.need, flavor, left)
                if allocations is not None:
                    members.append(MemberPlan(role.name, len(members), cluster, node, allocations))
                    break
            else:
                self.board.change_members(members, 1)
                return None
        return members


def flavor_amounts(members: Iterable[MemberPlan]) -> dict[str, int]:
    """Quantity by flavor."""
    used: dict[str, int] = {}
    for member in members:
        for allocation in member.allocations:
            used[allocation.flavor] = used.get(allocation.flavor, 0) + allocation.quantity
    return used


def flavor_asks(trees: Mapping[str, QuotaTree], plan: ShapePlan, used: Mapping[str, int]) -> list[Ask]:
    """The quota checks of an attempt that would use these flavors."""
    asks = [
        Ask(tree, node, f"{FLAVOR_PREFIX}{name}", used[name])
        for tree, node in plan.nodes
        for name in used
        if f"{FLAVOR_PREFIX}{name}" in trees[tree].subjects
    ]
    if not plan.counting.is_plain:
        asks += [Ask(*one) for one in plan.counting.measured_at(plan.nodes, used)]
    return asks


def charges_of(plan: ShapePlan, used: Mapping[str, int]) -> tuple[Charge, ...]:
    """What the attempt is charged, at its own node of each tree."""
    asked = ((cls, n, role.count) for role in plan.roles for cls, n in role.need.amounts)
    parts = {} if plan.counting.is_plain else parts_of(asked)
    return plan.counting.charges(plan.nodes, Held(plan.amounts, used, parts))


def allocations_of(members: Iterable[MemberPlan]) -> Iterable[tuple[MemberPlan, AllocationPlan]]:
    """Every allocation with its member."""
    for member in members:
        for allocation in member.allocations:
            yield member, allocation

"""A shape made ready to be placed: what each role needs, the flavors that suit it, what limits it meets.

Made once for as long as flavors, pools, trees and policy stay the same, and used for each of its attempts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from steelyard.model.policy import FLAVOR_PREFIX, Policy, ResourceGroup
from steelyard.model.reasons import Reason
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import Shape
from steelyard.scheduling.admission import misfits, runs_on, shut_reason
from steelyard.scheduling.board import Need, need_of
from steelyard.scheduling.ledger import Ask, Check, made_ready
from steelyard.scheduling.quota import QuotaTree
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.subjects import Counting, Held, own_nodes, parts_of
from steelyard.scheduling.views import Charge, FlavorView


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
    may_ever: tuple[object, bool] | None = None  # on which nodes, whether it could ever start
    _checks: tuple[Check, ...] | None = None
    _led: dict[str, Terms] = field(default_factory=dict)
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

    def led_on(self, flavor: str) -> Terms:
        """As `on`, of what the lead role asks for on a flavor."""
        known = self._led.get(flavor)
        if known is None:
            known = self._led[flavor] = self.on({flavor: self.lead.count * self.lead.need.amount})
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

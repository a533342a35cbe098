"""What could never be held, even by empty clusters. Only what is certain is said.

Cordoned nodes and clusters that don't answer count as there: they may come back. Nodes that have the
same in total are looked at together, so the work grows with kinds of nodes, not with nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.scheduling.admission import joined
from steelyard.scheduling.barriers import WAKE_CAPACITY
from steelyard.scheduling.board import Need, matches
from steelyard.scheduling.fleet import Fleet
from steelyard.scheduling.placement import RoleNeed, ShapePlan
from steelyard.scheduling.views import FlavorView, NodeView

_Labels = tuple[tuple[str, str], ...]
_Totals = Mapping[DeviceClass, int | None]  # None: not known


def class_flavors(
    view: NodeView, flavors: Mapping[str, FlavorView], device_class: DeviceClass, only: str | None
) -> list[str]:
    """Names of a node's flavors of one class, by name."""
    if device_class in ACCELERATORS:
        names: Iterable[str] = {*view.accelerators, *view.totals}
    else:
        names = {slot.flavor for slot in view.slots if slot.device_class is device_class}
    wanted = sorted(name for name in names if only in (None, name))
    if device_class not in ACCELERATORS:
        return wanted
    return [name for name in wanted if name in flavors and flavors[name].device_class is device_class]


def class_total(
    view: NodeView, flavors: Mapping[str, FlavorView], device_class: DeviceClass, only: str | None
) -> int | None:
    """What a node has of a class, held or not; None where the snapshot does not say."""
    names = class_flavors(view, flavors, device_class, only)
    if any(name not in view.totals for name in names):
        return None
    return sum(view.totals[name] for name in names)


def kind_of(view: NodeView) -> object:
    """The same for nodes that have the same of the same flavors, whatever is free of it."""
    slots = tuple((slot.flavor, slot.device_class) for slot in view.slots)
    return tuple(view.accelerators), tuple(view.totals.items()), slots


class Bounds:
    """What there is in all, by flavor: kinds of nodes and their number.

    May be kept as long as nodes and flavors stay the same; `free` quantities play no part in it.
    """

    def __init__(self, nodes: Mapping[int, NodeView], flavors: Mapping[str, FlavorView]) -> None:
        self.flavors = flavors
        self._by_flavor: dict[str, list[NodeView]] = {}
        for node_id in sorted(nodes):
            view = nodes[node_id]
            for name in {*view.accelerators, *view.totals, *(slot.flavor for slot in view.slots)}:
                self._by_flavor.setdefault(name, []).append(view)
        self._beside: dict[tuple[str, DeviceClass], frozenset[str]] = {}
        self._kinds: dict[tuple[str, _Labels], list[tuple[_Totals, int]]] = {}

    def nodes_of(self, flavor: str) -> list[NodeView]:
        """The nodes that have the flavor."""
        return self._by_flavor.get(flavor, [])

    def beside(self, flavor: str, device_class: DeviceClass) -> frozenset[str]:
        """Flavors of another class on the nodes that have this flavor."""
        key = (flavor, device_class)
        known = self._beside.get(key)
        if known is None:
            known = self._beside[key] = frozenset(
                name
                for view in self._by_flavor.get(flavor, ())
                for name in class_flavors(view, self.flavors, device_class, None)
            )
        return known

    def kinds(self, flavor: str, need: Need) -> list[tuple[_Totals, int]]:
        """Totals by class of the nodes with the flavor and the labels, each with how many there are."""
        key = (flavor, need.labels)
        known = self._kinds.get(key)
        if known is None:
            counts: dict[tuple[int | None, ...], int] = {}
            seen: dict[object, tuple[int | None, ...]] = {}  # by what nodes are
            for view in self._by_flavor.get(flavor, ()):
                if matches(view, need):
                    totals = seen.get(kind := kind_of(view))
                    if totals is None:
                        totals = seen[kind] = tuple(
                            class_total(view, self.flavors, cls, flavor if cls is need.primary else None)
                            for cls in DeviceClass
                        )
                    counts[totals] = counts.get(totals, 0) + 1
            known = [(dict(zip(DeviceClass, totals, strict=True)), count) for totals, count in counts.items()]
            self._kinds[key] = known
        return known


def bounds_of(nodes: Mapping[int, NodeView], flavors: Mapping[str, FlavorView]) -> Bounds:
    """The bounds of nodes and flavors; of a fleet they are made once, until it changes."""
    if not isinstance(nodes, Fleet):
        return Bounds(nodes, flavors)
    known = nodes.frame.memory.get("bounds")
    if known is None or known[0] is not flavors:
        known = nodes.frame.memory["bounds"] = (flavors, Bounds(nodes, flavors))
    assert isinstance(known[1], Bounds)
    return known[1]


def surely_used(bounds: Bounds, plan: ShapePlan, flavor: str) -> dict[str, int]:
    """What a gang with its lead role on one flavor takes of each flavor, where there is no choice."""
    cluster = bounds.flavors[flavor].cluster
    used: dict[str, int] = {}
    for role in plan.roles:
        names = [flavor]
        if role is not plan.lead:
            names = [name for name in role.flavors if bounds.flavors[name].cluster == cluster]
        for device_class, amount in role.need.amounts:
            takes = set(names)
            if device_class is not role.need.primary:
                takes = {other for name in names for other in bounds.beside(name, device_class)}
            if len(takes) == 1:
                (only,) = takes
                used[only] = used.get(only, 0) + amount * role.count
    return used


def never_reasons(bounds: Bounds, plan: ShapePlan, flavor: str | None = None) -> list[Reason]:
    """Why the gang could never be held; with its lead role on one flavor, if it is given."""
    if flavor is None:
        without = [role for role in plan.roles if not role.flavors and not role.silent]
        missing = [reason for role in without for reason in _unplaced(role, None)]
        return missing if plan.roles else [Reason(ReasonCode.NO_MATCHING_FLAVOR, "placement")]
    cluster = bounds.flavors[flavor].cluster
    reasons: list[Reason] = []
    for role in plan.roles:
        names = [flavor]
        if role is not plan.lead:
            names = [name for name in role.flavors if bounds.flavors[name].cluster == cluster]
        if not names:
            reasons += _unplaced(role, cluster)
            continue
        each = [_never_holds(bounds, role, name) for name in names]
        if all(each):
            reasons += [reason for reason in each if reason is not None]
    topology = plan.shape.topology
    if not reasons and topology is not None and topology.required is not None:
        narrow = _never_in_one_domain(bounds, plan.lead, flavor, topology.required)
        reasons += [narrow] if narrow is not None else []
    return reasons


def _never_in_one_domain(bounds: Bounds, role: RoleNeed, flavor: str, level: str) -> Reason | None:
    """Why no domain of a level could hold a role even when it is empty."""
    members: dict[str, int] = {}
    for view in bounds.nodes_of(flavor):
        value = view.labels.get(level)
        if value is None or not matches(view, role.need):
            continue
        total = view.totals.get(flavor)
        if total is None:
            return None
        members[value] = members.get(value, 0) + (total // role.need.amount if role.need.amount else 1 << 30)
    most = max(members.values(), default=0)
    if most >= role.count:
        return None
    limit, requested = most * role.need.amount, role.count * role.need.amount
    found = _exceeds(role, flavor, role.need.primary, limit, requested, "domain")
    return replace(found, params={**found.params, "level": level})


def _unplaced(role: RoleNeed, cluster: str | None) -> tuple[Reason, ...]:
    """Why a role has no flavor (in a cluster): pools that are shut, those that don't take it, or no other."""
    for found in (role.shut, role.barred):
        reasons = tuple(reason for where, reason in found if cluster in (None, where))
        if reasons:
            return reasons
    return (_no_flavor(role, cluster),)


def _failing_label(bounds: Bounds, role: RoleNeed, flavor: str) -> Reason:
    """The first label that no node of the flavor has as wanted; else the first of those that no node has
    together."""
    views = bounds.nodes_of(flavor)
    lacking = [
        (key, wanted) for key, wanted in role.need.labels
        if all(view.labels.get(key) != wanted for view in views)
    ]  # fmt: skip
    key, wanted = (lacking or list(role.need.labels))[0]
    found = joined(sorted({view.labels[key] for view in views if key in view.labels}))
    params: dict[str, str | int | None] = {
        "pool": bounds.flavors[flavor].pool, "label": key, "wanted": wanted, "found": found,
        "per": "node",
    }  # fmt: skip
    return Reason(
        ReasonCode.LABEL_MISMATCH, "placement", "flavor", flavor, role.need.primary.value, flavor,
        requested=role.need.amount * role.count, wakes_on=(WAKE_CAPACITY,), params=params,
    )  # fmt: skip


def _no_flavor(role: RoleNeed, cluster: str | None) -> Reason:
    request = role.need.request
    params: dict[str, str | int | None] = {
        "role": role.name,
        "cluster": cluster,
        "flavors": ",".join(request.flavors[:8]) or None,
        "models": ",".join(request.models[:8]) or None,
        "device_memory": request.device_memory or None,
    }
    return Reason(
        ReasonCode.NO_MATCHING_FLAVOR, "placement", resource=role.need.primary.value,
        requested=role.need.amount * role.count, wakes_on=(WAKE_CAPACITY,), params=params,
    )


def _never_holds(bounds: Bounds, role: RoleNeed, flavor: str) -> Reason | None:
    need = role.need
    kinds = bounds.kinds(flavor, need)
    if not kinds and need.labels:
        return _failing_label(bounds, role, flavor)
    members = 0
    for device_class, amount in need.amounts:
        known = [(total, count) for totals, count in kinds if (total := totals[device_class]) is not None]
        if len(known) < len(kinds):
            return None
        there = sum(total * count for total, count in known)
        if there < amount * role.count:
            return _exceeds(role, flavor, device_class, there, amount * role.count, "cluster")
        largest = max((total for total, _ in known), default=0)
        if largest < amount:
            return _exceeds(role, flavor, device_class, largest, amount, "node")
    members = sum(_members_on(totals, need) * count for totals, count in kinds)
    if members < role.count:
        requested, limit = role.count * need.amount, members * need.amount
        return _exceeds(role, flavor, need.primary, limit, requested, "members")
    return None


def _members_on(totals: _Totals, need: Need) -> int:
    """At most so many members fit on an empty node of the kind."""
    return min((totals[cls] or 0) // amount if amount else 1 << 30 for cls, amount in need.amounts)


def _exceeds(
    role: RoleNeed, flavor: str, device_class: DeviceClass, limit: int, requested: int, per: str
) -> Reason:
    return Reason(
        ReasonCode.EXCEEDS_CAPACITY, "placement", "flavor", flavor, device_class.value, flavor,
        limit, 0, requested, requested - limit, (), (WAKE_CAPACITY,), params={"role": role.name, "per": per},
    )

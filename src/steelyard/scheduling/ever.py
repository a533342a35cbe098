"""What could never be held, even by empty clusters. Only what is certain is said.

Cordoned nodes and clusters that don't answer count as there: they may come back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.scheduling.barriers import WAKE_CAPACITY
from steelyard.scheduling.board import Need, matches
from steelyard.scheduling.placement import RoleNeed, ShapePlan
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import FlavorView, NodeView


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


def never_reasons(snapshot: Snapshot, plan: ShapePlan, flavor: str | None = None) -> list[Reason]:
    """Why the gang could never be held; with its lead role on one flavor, if it is given."""
    if flavor is None:
        return [
            _no_flavor(role, None) for role in plan.roles if not role.flavors and not role.silent
        ] or ([] if plan.roles else [Reason(ReasonCode.NO_MATCHING_FLAVOR, "placement")])
    cluster = snapshot.flavors[flavor].cluster
    reasons: list[Reason] = []
    for role in plan.roles:
        names = [flavor]
        if role is not plan.lead:
            names = [name for name in role.flavors if snapshot.flavors[name].cluster == cluster]
        if not names:
            reasons.append(_no_flavor(role, cluster))
            continue
        each = [_never_holds(snapshot, role, name) for name in names]
        if all(each):
            reasons += [reason for reason in each if reason is not None]
    return reasons


def _no_flavor(role: RoleNeed, cluster: str | None) -> Reason:
    request = role.need.request
    params: dict[str, str | int | None] = {
        "role": role.name,
        "cluster": cluster,
        "flavors": ",".join(request.flavors[:8]) or None,
        "models": ",".join(request.models[:8]) or None,
        "labels": None,
    }
    return Reason(
        ReasonCode.NO_MATCHING_FLAVOR, "placement", resource=role.need.primary.value,
        requested=role.need.amount * role.count, wakes_on=(WAKE_CAPACITY,), params=params,
    )


def _never_holds(snapshot: Snapshot, role: RoleNeed, flavor: str) -> Reason | None:
    need = role.need
    nodes = [
        view
        for _, view in sorted(snapshot.nodes.items())
        if class_flavors(view, snapshot.flavors, need.primary, flavor) and matches(view, need)
    ]
    if not nodes and need.labels:
        labels = ",".join(f"{key}={value}" for key, value in need.labels[:8])
        reason = _no_flavor(role, snapshot.flavors[flavor].cluster)
        return Reason(
            reason.code, reason.stage, resource=reason.resource, flavor=flavor, requested=reason.requested,
            wakes_on=reason.wakes_on, params={**reason.params, "labels": labels},
        )
    for device_class, amount in need.amounts:
        only = flavor if device_class is need.primary else None
        totals = [class_total(view, snapshot.flavors, device_class, only) for view in nodes]
        known = [total for total in totals if total is not None]
        if len(known) < len(totals):
            return None
        if sum(known) < amount * role.count:
            return _exceeds(role, flavor, device_class, sum(known), amount * role.count, "cluster")
        if max(known, default=0) < amount:
            return _exceeds(role, flavor, device_class, max(known, default=0), amount, "node")
    most = sum(_members_on(snapshot, view, need, flavor) for view in nodes)
    if most < role.count:
        requested, limit = role.count * need.amount, most * need.amount
        return _exceeds(role, flavor, need.primary, limit, requested, "members")
    return None


def _members_on(snapshot: Snapshot, view: NodeView, need: Need, flavor: str) -> int:
    """At most so many members fit on the empty node."""
    bounds = []
    for device_class, amount in need.amounts:
        only = flavor if device_class is need.primary else None
        total = class_total(view, snapshot.flavors, device_class, only) or 0
        bounds.append(total // amount if amount else 1 << 30)
    return min(bounds)


def _exceeds(
    role: RoleNeed, flavor: str, device_class: DeviceClass, limit: int, requested: int, per: str
) -> Reason:
    return Reason(
        ReasonCode.EXCEEDS_CAPACITY, "placement", "flavor", flavor, device_class.value, flavor,
        limit, 0, requested, requested - limit, (), (WAKE_CAPACITY,), params={"role": role.name, "per": per},
    )

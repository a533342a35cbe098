"""Quota against inventory, as it is shown: to those who see the whole installation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.identity.authorise import authorise
from steelyard.model.organisation import Principal, Verb
from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE
from steelyard.scheduling import Snapshot
from steelyard.scheduling.inventory_quota import Compared, compare
from steelyard.scheduling.views import FlavorView
from steelyard.services.ground import SubmitSnapshots
from steelyard.services.live_load import SnapshotSource
from steelyard.store.database import View
from steelyard.store.store import Store

Json = dict[str, Any]


def quota_inventory(store: Store, snapshots: SubmitSnapshots, principal: Principal) -> list[Json]:
    """Each class and flavor with what queues own, what is there, what is offered, and the difference."""
    authorise(principal, Verb.VIEW, "doctor")
    with store.read() as view:
        snapshot, _ = snapshots.full(view, store.now())
    return [_view(one, snapshot.flavors) for one in _compared(snapshot)]


def ghosts(view: View) -> list[Compared]:
    """Of what queues own more than is offered."""
    return [one for one in _compared(SnapshotSource().for_submit(view, 0)) if one.ghost]


def _compared(snapshot: Snapshot) -> list[Compared]:
    return compare(snapshot.trees.get(QUEUE_TREE), snapshot.nodes.values(), snapshot.flavors)


def _view(one: Compared, flavors: Mapping[str, FlavorView]) -> Json:
    is_flavor = one.subject.startswith(FLAVOR_PREFIX)
    flavor = flavors.get(one.subject.removeprefix(FLAVOR_PREFIX)) if is_flavor else None
    whole = None if is_flavor else one.subject
    return {
        "subject": one.subject,
        "class": whole if whole is not None else flavor.device_class.value if flavor else None,
        "owned": one.owned,
        "there": one.there,
        "offered": one.offered,
        "ghost": one.ghost,
        "unowned": one.unowned,
    }

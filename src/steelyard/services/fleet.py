"""The whole inventory at a glance: sums by class, what is down and why, and node by node what devices do.

The sums and what is found come from a census; who holds what is read of the devices that are shown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.units import DAY
from steelyard.services.census import Census, Spot, Wanted, groups_of, reasons_of, take_census
from steelyard.services.device_page import show_device
from steelyard.services.inventory import NOUN, PARTS, Live, device_view, node_view, read_live
from steelyard.services.kinds import Kind
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
#: How far back a device's former holders are looked for, and how many of their stages.
HOLDERS_SINCE, MAX_STAGES = 30 * DAY, 300
#: Devices that are down are named up to so many; the map finds the others.
MAX_DOWN = 12


def fleet(
    store: Store, principal: Principal, wanted: Wanted, page: int, limit: int,
    census: Callable[[], Census] | None = None,
) -> Json:  # fmt: skip
    """`{as_of, clusters, classes, pools, reasons, down, down_count, groups, nodes, node_count, device_count,
    page, pages}`; `nodes` are those of the page, each with its wanted devices, by cluster and name; `down`
    are the first devices of `reasons`, which tell of the wanted cluster, class and pool. `census`: where one
    comes from that is kept."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "workload")
    known = take_census(store) if census is None else census()
    found = [spot for spot in known.spots if wanted.takes(spot)]
    place = Wanted(wanted.cluster, wanted.device_class, wanted.pool)
    down = [spot for spot in known.spots if spot.down and place.takes(spot)]
    by_node: dict[int, list[int]] = defaultdict(list)
    for spot in found:
        by_node[spot.node_id].append(spot.id)
    order = [number for number in known.order if number in by_node or wanted.anything]
    pages = max(1, -(-len(order) // limit))
    at = min(max(1, page), pages)
    shown = order[(at - 1) * limit : at * limit]
    with store.read() as view:
        nodes = _shown_nodes(view, seen, store.now(), shown, by_node)
        first = _first_down(view, seen, store.now(), known, down)
    return {
        "as_of": known.as_of,
        "clusters": known.clusters,
        "classes": known.classes(),
        "pools": known.pools(),
        "reasons": reasons_of(down),
        "down": first,
        "down_count": len(down),
        "whys": sorted({spot.why_not for spot in known.spots if spot.why_not is not None}),
        "groups": groups_of(found),
        "nodes": nodes,
        "node_count": len(order),
        "device_count": len(found),
        "page": at,
        "pages": pages,
    }


def _shown_nodes(
    view: View, seen: Scope, now: int, shown: list[int], by_node: dict[int, list[int]]
) -> list[Json]:
    """These nodes in their order, each with its devices of those."""
    ids = [number for node_id in shown for number in by_node.get(node_id, ())]
    live = read_live(view, seen, now, ids)
    devices: dict[int, list[Record]] = defaultdict(list)
    for device in repository.devices_of(view, ids):
        devices[device["node_id"]].append(device)
    rows = {row["id"]: row for row in repository.nodes_of(view, shown)}
    return [_node(rows[number], devices[number], live) for number in shown if number in rows]


def _first_down(
    view: View, seen: Scope, now: int, known: Census, down: list[Spot]
) -> list[Json]:
    """The first that are down, in the order of their nodes."""
    rank = {number: place for place, number in enumerate(known.order)}
    first = sorted(down, key=lambda spot: (rank.get(spot.node_id, len(rank)), spot.id))[:MAX_DOWN]
    ids = [spot.id for spot in first]
    live = read_live(view, seen, now, ids)
    rows = {row["id"]: row for row in repository.devices_of(view, ids)}
    return [device_view(rows[number], live, None) for number in ids if number in rows]


def _node(row: Record, devices: Iterable[Record], live: Live) -> Json:
    listed = list(devices)
    pools = sorted({device["pool"] for device in listed if device["pool"] is not None})
    return node_view(row, [device_view(device, live, None) for device in listed], pools, live)


def ever_there(store: Store, principal: Principal) -> Json:
    """`{clusters, pools}`: names of those that there are or were."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        names = (repository.ever_declared(view, kind.value) for kind in (Kind.CLUSTER, Kind.POOL))
        return dict(zip(("clusters", "pools"), names, strict=True))


def show_node(store: Store, principal: Principal, node_id: int) -> Json:
    """A node with its devices. Raises NotFoundError."""
    authorise(principal, Verb.VIEW, NOUN)
    seen, now = scope(principal, Verb.VIEW, "workload"), store.now()
    with store.read() as view:
        row = repository.get_node(view, node_id)
        if row is None:
            raise NotFoundError("not-found", kind="node", id=render("node", node_id))
        devices = repository.devices_on(view, [node_id])
        live = read_live(view, seen, now, [device["id"] for device in devices])
        parts = [live.parts(device) for device in devices if not device["has_children"]]
        sums = {name: sum(getattr(each, name) for each in parts) for name in PARTS}
        return {**_node(row, devices, live), "sums": sums}


def show_device_with_holders(store: Store, principal: Principal, name: str) -> Json:
    """`device_page.show_device` with `former`: who held it of late, the newest first."""
    found = show_device(store, principal, name)
    seen, now = scope(principal, Verb.VIEW, "workload"), store.now()
    with store.read() as view:
        rows = repository.holdings_of(
            view, seen, parse("device", found["id"]), now - HOLDERS_SINCE, MAX_STAGES
        )
    return {**found, "former": _former(rows)}


def _former(rows: Iterable[Record]) -> list[Json]:
    """One entry for each attempt: the stages in which it held the device are one span."""
    spans: dict[int, Json] = {}
    for row in rows:
        known = spans.get(row["attempt_id"])
        if known is None:
            spans[row["attempt_id"]] = {
                "workload": None if row["workload_id"] is None else render("workload", row["workload_id"]),
                "name": row["name"],
                "project": row["project"],
                "quantity": row["quantity"],
                "t0": row["t0"],
                "t1": row["t1"],
            }
        else:
            known["t0"], known["t1"] = min(known["t0"], row["t0"]), max(known["t1"], row["t1"])
    return list(spans.values())

"""The whole inventory at a glance: sums by class and, node by node, what every device is doing.

One reading serves both, so that a map and the sums above it tell of the same moment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.model.units import DAY
from steelyard.services.device_page import show_device
from steelyard.services.inventory import (
    NOUN,
    PARTS,
    Live,
    Parts,
    class_sums,
    clusters,
    device_view,
    node_view,
    read_live,
)
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
#: How far back a device's former holders are looked for, and how many of their stages.
HOLDERS_SINCE, MAX_STAGES = 30 * DAY, 300
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which devices are wanted. `state` is one of `inventory.PARTS`: some of the device is in it."""

    cluster: str | None = None
    device_class: str | None = None
    pool: str | None = None
    state: str | None = None

    @property
    def anything(self) -> bool:
        """Whether nothing is left out."""
        return not (self.cluster or self.device_class or self.pool or self.state)

    def takes(self, device: Record, parts: Parts) -> bool:
        """Whether this device is wanted."""
        return (
            (self.cluster is None or device["cluster"] == self.cluster)
            and (self.device_class is None or device["class"] == self.device_class)
            and (self.pool is None or device["pool"] == self.pool)
            and (self.state is None or getattr(parts, self.state) > 0)
        )


def fleet(store: Store, principal: Principal, wanted: Wanted, page: int, limit: int) -> Json:
    """`{as_of, clusters, classes, pools, nodes, node_count, device_count, page, pages}`; `nodes` are those
    of the page, each with its wanted devices, by cluster and name."""
    authorise(principal, Verb.VIEW, NOUN)
    seen, now = scope(principal, Verb.VIEW, "workload"), store.now()
    with store.read() as view:
        live = read_live(view, seen, now)
        devices = [(row, live.parts(row)) for row in repository.all_devices(view)]
        by_node: dict[int, list[Record]] = defaultdict(list)
        for row, parts in devices:
            if wanted.takes(row, parts):
                by_node[row["node_id"]].append(row)
        nodes = _nodes(view, wanted, by_node)
        pages = max(1, -(-len(nodes) // limit))
        at = min(max(1, page), pages)
        return {
            "as_of": now,
            "clusters": clusters(view, now),
            "classes": class_sums(devices),
            "pools": sorted({row["pool"] for row, _ in devices if row["pool"] is not None}),
            "nodes": [_node(row, by_node[row["id"]], live) for row in nodes[(at - 1) * limit : at * limit]],
            "node_count": len(nodes),
            "device_count": sum(len(rows) for rows in by_node.values()),
            "page": at,
            "pages": pages,
        }


def _nodes(view: View, wanted: Wanted, by_node: dict[int, list[Record]]) -> list[Record]:
    """Nodes with something wanted, those without any device only where everything is wanted."""
    found = (row for row in repository.all_nodes(view) if by_node.get(row["id"]) or wanted.anything)
    return sorted(found, key=lambda row: (row["cluster"], _natural(row["name"]), row["id"]))


def _natural(name: str) -> list[tuple[int, str]]:
    """`n2` before `n10`."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in _DIGITS.split(name)]


def _node(row: Record, devices: Iterable[Record], live: Live) -> Json:
    listed = list(devices)
    pools = sorted({device["pool"] for device in listed if device["pool"] is not None})
    return node_view(row, [device_view(device, live, None) for device in listed], pools, live)


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

"""What there is and what it is doing now: nodes and devices with live state, sums by class.

Of each device, at each instant: capacity = held + free + reserved + unavailable + unknown, exactly.
Nothing is clamped: a `free` below zero would be a finding, not a figure to be tidied.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.resources import Availability, EngineKind, UnavailableReason
from steelyard.services.conditions import process_view, read_condition, sign_view
from steelyard.services.flags import flag_views
from steelyard.services.live_records import SOUND, Condition
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.flags import all_standing
from steelyard.store.overview import device_capacities
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
#: An observation older than this says nothing about now (policy's `observation_bound` by default).
OBSERVATION_BOUND = 60_000_000
NOUN = "inventory"
PARTS = ("held", "free", "reserved", "unavailable", "unknown")


class Parts(NamedTuple):
    """Where a device's capacity is; the parts sum to it."""

    held: int
    free: int
    reserved: int
    unavailable: int
    unknown: int

    @property
    def capacity(self) -> int:
        """Their sum."""
        return self.held + self.free + self.reserved + self.unavailable + self.unknown


@dataclass(frozen=True, slots=True)
class Live:
    """What is held, kept back and kept for somebody, by device, and what is said of it; the clusters that
    answer. `conditions`: of devices that are not simply healthy with nobody on them; `flags`: by what they
    stand on."""

    holders: dict[int, list[Record]]
    quarantined: dict[int, int]
    reserved: dict[int, int]
    seen: dict[str, int]  # cluster → µs of an observation that still counts
    observed_at: dict[str, int]
    conditions: Mapping[int, Condition] = field(default_factory=dict)
    flags: Mapping[int, list[Json]] = field(default_factory=dict)

    def condition(self, device_id: int) -> Condition:
        """What is said of a device."""
        return self.conditions.get(device_id, SOUND)

    def flags_on(self, *object_ids: int | None) -> list[Json]:
        """The flags that stand on any of these."""
        return [flag for object_id in object_ids for flag in self.flags.get(object_id or 0, ())]

    def parts(self, device: Record) -> Parts:
        """The capacity of one device taken apart."""
        capacity = device["capacity"]
        if device["has_children"]:
            return Parts(0, 0, 0, 0, 0)  # its children are counted
        held = sum(holder["quantity"] for holder in self.holders.get(device["id"], ()))
        rest = capacity - held
        if device["availability"] == Availability.UNKNOWN or device["cluster"] not in self.seen:
            return Parts(held, 0, 0, 0, rest)
        if device["availability"] != Availability.AVAILABLE:
            return Parts(held, 0, 0, rest, 0)
        kept_back = self.quarantined.get(device["id"], 0)
        kept_back += max(0, min(self.condition(device["id"]).occupied, rest - kept_back))
        reserved = max(0, min(self.reserved.get(device["id"], 0), rest - kept_back))
        return Parts(held, rest - kept_back - reserved, reserved, kept_back, 0)


def nodes_page(
    store: Store,
    principal: Principal,
    *,
    cluster: str | None,
    device_class: str | None,
    pool: str | None,
    cursor: str | None,
    limit: int,
) -> tuple[list[Json], str | None]:
    """A page of nodes for a principal."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "workload")
    with store.read() as view:
        return list_nodes(
            view,
            seen,
            store.now(),
            cluster=cluster,
            device_class=device_class,
            pool=pool,
            cursor=cursor,
            limit=limit,
        )


def summary_page(store: Store, principal: Principal) -> Json:
    """The sums by class for a principal."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        return summary(view, scope(principal, Verb.VIEW, "workload"), store.now())


def read_live(connection: View, scope: Scope, now: int, device_ids: Collection[int] | None = None) -> Live:
    """The state of these devices, or of all."""
    holders: dict[int, list[Record]] = defaultdict(list)
    for row in repository.open_allocations(connection, scope, device_ids):
        if row["device_id"] is not None:
            holders[row["device_id"]].append(row)
    quarantined: dict[int, int] = defaultdict(int)
    for row in repository.open_quarantines(connection, device_ids):
        quarantined[row["device_id"]] += row["quantity"]
    observed = repository.observations(connection)
    return Live(
        dict(holders),
        dict(quarantined),
        _reserved(repository.hold_plans(connection)),
        {
            name: row["as_of"]
            for name, row in observed.items()
            if row["reachable"] and now - row["as_of"] <= OBSERVATION_BOUND
        },
        {name: row["as_of"] for name, row in observed.items()},
        {row.device_id: read_condition(row) for row in repository.open_conditions(connection, device_ids)},
        _flags(connection, device_ids),
    )


def _flags(connection: View, device_ids: Collection[int] | None) -> dict[int, list[Json]]:
    """Flags that stand, by what they stand on: few, whatever was asked for."""
    found: dict[int, list[Json]] = defaultdict(list)
    rows = all_standing(connection)
    for row, shown in zip(rows, flag_views(connection, rows), strict=True):
        found[row["object_id"]].append(shown)
    return dict(found)


def _reserved(plans: Iterable[str]) -> dict[int, int]:
    """Quantity by device that is kept for preemptors."""
    total: dict[int, int] = defaultdict(int)
    for text in plans:
        for member in msgspec.json.decode(text).get("members") or ():
            for allocation in member["allocations"]:
                if allocation["device_id"] is not None:
                    total[allocation["device_id"]] += allocation["quantity"]
    return dict(total)


def list_nodes(
    connection: View,
    scope: Scope,
    now: int,
    *,
    cluster: str | None = None,
    device_class: str | None = None,
    pool: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[list[Json], str | None]:
    """A page of nodes with their devices, and the cursor of the next."""
    after = parse("node", cursor) if cursor else None
    rows = repository.list_nodes(
        connection, cluster=cluster, device_class=device_class, pool=pool, after=after, limit=limit
    )
    ids = [row["id"] for row in rows]
    devices = repository.devices_on(connection, ids, device_class=device_class, pool=pool)
    numbers = [device["id"] for device in devices]
    live = read_live(connection, scope, now, numbers)
    known = repository.provenances(connection, numbers)
    by_node: dict[int, list[Json]] = defaultdict(list)
    pools: dict[int, set[str]] = defaultdict(set)
    for device in devices:
        by_node[device["node_id"]].append(device_view(device, live, known.get(device["id"])))
        if device["pool"] is not None:
            pools[device["node_id"]].add(device["pool"])
    shown = [node_view(row, by_node[row["id"]], sorted(pools[row["id"]]), live) for row in rows]
    return shown, render("node", ids[-1]) if len(rows) == limit else None


def node_view(row: Record, devices: list[Json], pools: list[str], live: Live) -> Json:
    """A node with its devices as they are shown."""
    lost = row["cluster"] not in live.seen
    return {
        "id": render("node", row["id"]),
        "name": row["name"],
        "cluster": row["cluster"],
        "simulated": bool(row["simulated"]),
        "availability": Availability.UNKNOWN.value if lost else row["availability"],
        "reason": UnavailableReason.CLUSTER_UNREACHABLE.value if lost else row["reason"],
        "reason_text": row["reason_text"],
        "labels": msgspec.json.decode(row["labels_json"]),
        "flags": live.flags_on(row["id"]),
        "pools": pools,
        "devices": devices,
        "observed_at": live.observed_at.get(row["cluster"]),
    }


def device_view(device: Record, live: Live, provenance: str | None) -> Json:
    """A device with its live state."""
    parts, condition = live.parts(device), live.condition(device["id"])
    state, reason = state_of(device, parts, live)
    in_sight = device["cluster"] in live.seen
    return {
        "id": render("device", device["id"]),
        "uid": device["uid"],
        "cluster": device["cluster"],
        "node": device["node"],
        "class": device["class"],
        "family": device["family"],
        "model": device["model"],
        "memory": device["memory"],
        "capacity": device["capacity"],
        **{part: getattr(parts, part) for part in PARTS},
        "state": state,
        "availability": device["availability"] if in_sight else Availability.UNKNOWN.value,
        "reason": reason,
        "reason_text": device["reason_text"],
        "health": condition.health.value,
        "signs": [sign_view(sign) for sign in condition.signs],
        "flags": live.flags_on(device["id"], device["node_id"], device["parent_id"]),
        "processes": [process_view(holder) for holder in condition.holders],
        **requestable(device, parts, state, reason),
        "pool": device["pool"],
        "flavor": device["flavor"],
        "parent": None if device["parent_id"] is None else render("device", device["parent_id"]),
        "provenance": provenance,
        "simulated": bool(device["simulated"]),
        "holders": [
            {
                "workload": None if h["workload_id"] is None else render("workload", h["workload_id"]),
                "name": h["name"],
                "project": h["project"],
                "quantity": h["quantity"],
                "since": h["t0"],
            }
            for h in live.holders.get(device["id"], ())
        ],
    }


def requestable(device: Record, parts: Parts, state: str, reason: str | None) -> Json:
    """Whether it can be asked for now, and if not, why: its reason, who has it, or that no pool has it."""
    why = None
    if device["pool"] is None and not device["has_children"]:
        why = "no-pool"
    elif reason is not None:
        why = reason
    elif parts.free <= 0:
        why = state if parts.held else "reserved"
    return {"requestable": why is None, "why_not": why}


def state_of(device: Record, parts: Parts, live: Live) -> tuple[str, str | None]:
    """What a device does as a whole, and why where it can't be had."""
    if device["cluster"] not in live.seen:
        return "unknown", UnavailableReason.CLUSTER_UNREACHABLE.value
    if device["availability"] == Availability.UNKNOWN:
        return "unknown", device["reason"]
    if device["has_children"]:
        return "unavailable", UnavailableReason.PARTITIONED.value
    if device["availability"] != Availability.AVAILABLE:
        return "unavailable", device["reason"]
    if parts.free > 0:
        return "available", None
    if parts.held or parts.reserved:
        return "held", None
    if live.condition(device["id"]).occupied:
        return "unavailable", UnavailableReason.OCCUPIED_UNOWNED.value
    return "unavailable", UnavailableReason.RELEASE_UNCONFIRMED.value


def summary(connection: View, scope: Scope, now: int) -> Json:
    """Clusters, and capacity by class and cluster taken apart."""
    live = read_live(connection, scope, now)
    devices = device_capacities(connection)
    return {
        "as_of": now,
        "clusters": clusters(connection, now),
        "classes": class_sums((device, live.parts(device)) for device in devices),
    }


def class_sums(devices: Iterable[tuple[Record, Parts]]) -> list[Json]:
    """Capacity by class and cluster taken apart; parts of a divided device are counted, not itself."""
    return sums_by(
        ((device["class"], device["cluster"], bool(device["simulated"])), parts)
        for device, parts in devices
        if not device["has_children"]
    )


def sums_by(devices: Iterable[tuple[tuple[str, str, bool], Parts]]) -> list[Json]:
    """Capacity by (class, cluster, simulated) taken apart."""
    sums: dict[tuple[str, str, bool], list[int]] = defaultdict(lambda: [0] * len(PARTS))
    for key, parts in devices:
        total = sums[key]
        for index, amount in enumerate(parts):  # in the order of PARTS
            total[index] += amount
    return [
        {
            "class": device_class,
            "cluster": cluster,
            "simulated": simulated,
            "capacity": sum(total),
            **dict(zip(PARTS, total, strict=True)),
        }
        for (device_class, cluster, simulated), total in sorted(sums.items())
    ]


def clusters(connection: View, now: int) -> list[Json]:
    """Declared clusters and whether they answer."""
    shown = []
    for row in repository.list_clusters(connection):
        spec = msgspec.json.decode(row["spec_json"])
        fresh = (
            bool(row["reachable"]) and row["as_of"] is not None and now - row["as_of"] <= OBSERVATION_BOUND
        )
        shown.append(
            {
                "name": row["name"],
                "engine": spec["engine"],
                "simulated": spec["engine"] == EngineKind.SIMULATED,
                "reachable": fresh if row["as_of"] is not None else None,
                "observed_at": row["as_of"],
                "owner": spec.get("owner"),
                "isolation": told_isolation(row["leaf"]),
            }
        )
    return shown


def told_isolation(leaf: bytes | None) -> Json | None:
    """{mode, enforced, not_enforced, text} of a cluster, from the last leaf that speaks of it; None where its
    engine tells of none."""
    if leaf is None:
        return None
    detail = msgspec.json.decode(leaf).get("detail") or {}
    found: Json | None = detail.get("isolation")
    return found

"""The inventory of a past instant, in the form of that of now: states, flags, facts, holders, pools, labels.

It is put together from intervals and from the rows of what never changed since, and shown by the same code as
the inventory of now. `observed_at` is not kept for the past and is null.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError
from steelyard.model.health import DeviceFlag
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.conditions import read_condition, text_beside
from steelyard.services.flags import flag_views
from steelyard.services.inventory import NOUN, Live, class_sums, device_view, node_view
from steelyard.services.live_records import SOUND
from steelyard.store import inventory_past as past
from steelyard.store.database import View
from steelyard.store.flags import stood_at
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
#: What a device is called may change; its facts tell what it was.
_NAMED = ("family", "model", "memory")


def nodes_at(
    store: Store,
    principal: Principal,
    at: int,
    *,
    cluster: str | None = None,
    device_class: str | None = None,
    pool: str | None = None,
    cursor: str | None = None,
    limit: int = 50,
) -> tuple[list[Json], str | None]:
    """A page of nodes as they were, and where the next one begins. Raises InvalidError `time-to-come`."""
    authorise(principal, Verb.VIEW, NOUN)
    seen = scope(principal, Verb.VIEW, "workload")
    after = parse("node", cursor) if cursor else None
    with store.read() as view:
        _not_to_come(store, at)
        wanted = None
        if device_class is not None or pool is not None:
            wanted = past.nodes_with(view, at, device_class, pool)
        rows = past.nodes(view, at, cluster=cluster, after=after, limit=limit, node_ids=wanted)
        shown = _shown(view, seen, at, rows, device_class, pool)
    return shown, render("node", rows[-1]["id"]) if len(rows) == limit else None


def summary_at(store: Store, principal: Principal, at: int) -> Json:
    """The sums by class and cluster at an instant."""
    authorise(principal, Verb.VIEW, NOUN)
    with store.read() as view:
        _not_to_come(store, at)
        devices, _ = _devices(view, at, None)
        live = _live(view, scope(principal, Verb.VIEW, "workload"), at, devices, None)
        return {"as_of": at, "classes": class_sums((device, live.parts(device)) for device in devices)}


def _not_to_come(store: Store, at: int) -> None:
    now = store.now()
    if at > now:
        raise InvalidError("time-to-come", at=at, now=now)


def _shown(
    view: View, seen: Scope, at: int, rows: list[Record], device_class: str | None, pool: str | None
) -> list[Json]:
    devices, known = _devices(view, at, [row["id"] for row in rows])
    live = _live(view, seen, at, devices, [device["id"] for device in devices])
    texts = {row["id"]: row["reason_text"] for row in rows}
    by_node: dict[int, list[Json]] = defaultdict(list)
    pools: dict[int, set[str]] = defaultdict(set)
    for device in devices:
        if device_class not in (None, device["class"]) or pool not in (None, device["pool"]):
            continue
        _beside(device, live, texts[device["node_id"]])
        fact = known.get(device["id"], {}).get("model")
        provenance = None if fact is None else fact.provenance
        by_node[device["node_id"]].append(device_view(device, live, provenance))
        if device["pool"] is not None:
            pools[device["node_id"]].add(device["pool"])
    return [node_view(row, by_node[row["id"]], sorted(pools[row["id"]]), live) for row in rows]


def _devices(
    view: View, at: int, node_ids: Collection[int] | None
) -> tuple[list[Record], dict[int, dict[str, Any]]]:
    """Rows of devices as they were, and of devices of some nodes the facts that name them."""
    devices = past.devices(view, at, node_ids)
    ids = None if node_ids is None else [device["id"] for device in devices]
    states, named = past.states(view, at, ids), past.facts(view, at, ids, _NAMED) if ids is not None else {}
    parents = past.divided(view, at, ids)
    for device in devices:
        state = states.get(device["id"])
        device["has_children"] = device["id"] in parents
        if state is not None:
            device["availability"], device["reason"] = state.availability, state.reason
            if not device["has_children"]:  # on the meter what is divided is none
                device["capacity"] = state.capacity or device["capacity"]
        for key, fact in named.get(device["id"], {}).items():
            device[key] = msgspec.json.decode(fact.value_json)
    return devices, named


def _live(
    view: View, seen: Scope, at: int, devices: list[Record], ids: Collection[int] | None
) -> Live:
    holders: dict[int, list[Record]] = defaultdict(list)
    for row in past.allocations(view, seen, at, ids):
        holders[row["device_id"]].append(row)
    reserved = dict(past.reserved(view, at, ids))
    for device_id, text in past.open_meters(view, ids):
        if "idle.reserved" in text:
            for state, _, since, quantity in msgspec.json.decode(text)["parts"]:
                if state == "idle.reserved" and since <= at:
                    reserved[device_id] = reserved.get(device_id, 0) + quantity
    blind = past.blind(view, at)
    flags: dict[int, list[Json]] = defaultdict(list)
    rows = [{**row, "valid_to": None, "lifted_by": None, "lift_reason": None} for row in stood_at(view, at)]
    for row, shown in zip(rows, flag_views(view, rows), strict=True):
        flags[row["object_id"]].append(shown)
    return Live(
        dict(holders),
        past.quarantined(view, at, ids),
        reserved,
        {name: at for name in {device["cluster"] for device in devices} if name not in blind},
        {},
        {number: read_condition(row) for number, row in past.conditions(view, at, ids).items()},
        dict(flags),
    )


def _beside(device: Record, live: Live, place: str | None) -> None:
    """The free text beside its reason, as it was."""
    reasons: dict[DeviceFlag, str] = {}
    for flag in live.flags_on(device["id"], device["node_id"], device["parent_id"]):
        reasons.setdefault(DeviceFlag(flag["flag"]), flag["reason"])
    condition = live.conditions.get(device["id"], SOUND)
    device["reason_text"] = text_beside(device["reason"], condition, reasons, place)

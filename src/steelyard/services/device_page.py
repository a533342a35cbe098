"""A device whole: how it is now, and the history of its facts, pools, availability, health and flags."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.ids import PREFIXES, parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.conditions import process_view, read_condition, sign_view
from steelyard.services.device_support import support_of
from steelyard.services.flags import flag_views
from steelyard.services.inventory import device_view, read_live
from steelyard.store import inventory as repository
from steelyard.store.database import View
from steelyard.store.flags import flags_of
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
_ID = PREFIXES["device"] + "_"


def show_device(store: Store, principal: Principal, name: str) -> Json:
    """A device for a principal. `name` is its id, CLUSTER/UID, or its UID where only one cluster has it.

    Raises NotFoundError, InvalidError `device-ambiguous`.
    """
    authorise(principal, Verb.VIEW, "device")
    with store.read() as view:
        device_id = parse("device", name) if name.startswith(_ID) else _named(view, name)
        return device_page(view, scope(principal, Verb.VIEW, "workload"), device_id, store.now())


def _named(view: View, name: str) -> int:
    """The id of the device with this UID; a retired one only where no other has it."""
    cluster, _, rest = name.partition("/")
    found = repository.devices_named(view, name)
    found += repository.devices_named(view, rest, cluster) if rest else []
    there = [row for row in found if row["retired_at"] is None] or found[-1:]
    if not there:
        raise NotFoundError("not-found", kind="device", id=name[:80])
    if len(there) > 1:
        clusters = ", ".join(sorted(row["cluster"] for row in there))
        raise InvalidError("device-ambiguous", uid=name[:80], clusters=clusters[:200])
    return int(there[0]["id"])


def device_page(connection: View, scope: Scope, device_id: int, now: int) -> Json:
    """A device with the history of its facts, its pools, its availability, its health and its flags."""
    device = repository.get_device(connection, device_id)
    if device is None:
        raise NotFoundError("not-found", kind="device", id=render("device", device_id))
    live = read_live(connection, scope, now, [device_id])
    facts = repository.facts_of(connection, device_id)
    known = {fact["key"]: fact["provenance"] for fact in facts if fact["valid_to"] is None}
    places = {device_id, device["node_id"], device["parent_id"] or device_id}
    return {
        **device_view(device, live, known.get("model")),
        "node_id": render("node", device["node_id"]),
        "registered_at": device["registered_at"],
        "retired_at": device["retired_at"],
        "facts": [_fact(fact) for fact in facts],
        "pools": _only(
            repository.pools_of(connection, device_id), "pool", "flavor", "valid_from", "valid_to", "version"
        ),
        "availability_history": _only(
            repository.availability_of(connection, device_id),
            "t0", "t1", "availability", "reason", "capacity", "pool",
        ),
        "health_history": [_condition(row) for row in repository.conditions_of(connection, device_id)],
        "flag_history": flag_views(connection, flags_of(connection, places)),
        "support": support_of(connection, device, now),
    }  # fmt: skip


def _only(rows: Iterable[Record], *names: str) -> list[Json]:
    return [{name: row[name] for name in names} for row in rows]


def _fact(fact: Record) -> Json:
    told = ("provenance", "source", "at", "valid_from", "valid_to", "version")
    value = msgspec.json.decode(fact["value_json"])
    return {"key": fact["key"], "value": value, **{name: fact[name] for name in told}}


def _condition(row: Any) -> Json:
    """A time in which something spoke against a device, or somebody was on it."""
    condition = read_condition(row)
    return {
        "health": condition.health.value,
        "signs": [sign_view(sign) for sign in condition.signs],
        "processes": [process_view(holder) for holder in condition.holders],
        "occupied": condition.occupied,
        "text": condition.text,
        "valid_from": row.valid_from,
        "valid_to": row.valid_to,
    }

"""Requests on devices, queues and quotas, and on the server itself."""

from __future__ import annotations

from steelyard.client.call import Call, Pages, get, part, post
from steelyard.client.transport import Query
from steelyard.client.views import Json


def inventory(query: Query) -> Pages[Json]:
    """Nodes with their devices."""
    return Pages("/v1/inventory", query, of="nodes")


def inventory_summary(at: int | None = None) -> Call[Json]:
    """Capacity by class."""
    return get("/v1/inventory/summary", {"at": at}, of="summary")


def inventory_diff(start: int, end: int | None) -> Call[Json]:
    """What changed between two instants."""
    return get("/v1/inventory/diff", {"from": start, "to": end})


def registrations(outcome: str | None) -> Pages[Json]:
    """What became of every device that was found."""
    return Pages("/v1/registrations", {"outcome": outcome})


def flags() -> Pages[Json]:
    """Flags that stand."""
    return Pages("/v1/flags")


def flag(on: str, act: str, reason: str, drain: bool) -> Call[Json]:
    """Something about a node or device is decided."""
    return post("/v1/flags", {"on": on, "act": act, "reason": reason, "drain": drain})


def verify_device(device: str, workload: str, valid_for: str | None) -> Call[Json]:
    """A run on it verifies a device's model."""
    body = {"device": device, "workload": workload, "valid_for": valid_for}
    return post("/v1/verifications", body, repeatable=False)


def retire_device(device: str, reason: str) -> Call[Json]:
    """A missing device is given up."""
    return post("/v1/registrations", {"device": device, "reason": reason}, repeatable=False)


def departures(on: str, at_once: bool) -> Call[Json]:
    """Who would leave."""
    return get("/v1/departures", {"on": on, "at_once": at_once})


def device(device_id: str) -> Call[Json]:
    """One device."""
    return get(f"/v1/devices/{part(device_id)}", of="device")


def queues() -> Pages[Json]:
    """The queue tree."""
    return Pages("/v1/queues", of="queues")


def waiting_order(queue: str, limit: int) -> Call[Json]:
    """A queue's waiting work in order."""
    return get(f"/v1/queues/{part(queue)}/waiting", {"limit": limit})


def quota_inventory() -> Pages[Json]:
    """Quota against what there is."""
    return Pages("/v1/quota-inventory")


def quotas() -> Pages[Json]:
    """The organisation tree."""
    return Pages("/v1/quotas", of="quotas")


def doctor() -> Call[Json]:
    """What is in order."""
    return get("/v1/doctor")


def version() -> Call[Json]:
    """Which server."""
    return get("/v1/version")

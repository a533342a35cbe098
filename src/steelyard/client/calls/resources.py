"""Requests on devices, queues and quotas, and on the server itself."""

from __future__ import annotations

from steelyard.client.call import Call, Pages, get, part
from steelyard.client.transport import Query
from steelyard.client.views import Json


def inventory(query: Query) -> Pages[Json]:
    """Nodes with their devices."""
    return Pages("/v1/inventory", query, of="nodes")


def inventory_summary() -> Call[Json]:
    """Capacity by class."""
    return get("/v1/inventory/summary", of="summary")


def device(device_id: str) -> Call[Json]:
    """One device."""
    return get(f"/v1/devices/{part(device_id)}", of="device")


def queues() -> Pages[Json]:
    """The queue tree."""
    return Pages("/v1/queues", of="queues")


def quotas() -> Pages[Json]:
    """The organisation tree."""
    return Pages("/v1/quotas", of="quotas")


def doctor() -> Call[Json]:
    """What is in order."""
    return get("/v1/doctor")


def version() -> Call[Json]:
    """Which server."""
    return get("/v1/version")

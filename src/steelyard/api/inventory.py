"""Inventory: nodes and devices with live state, sums by class, a device with its history."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.api.paging import PageDep, paged
from steelyard.model.resources import DeviceClass, RegistrationOutcome
from steelyard.services import inventory
from steelyard.services.device_page import show_device
from steelyard.services.inventory_diff import difference
from steelyard.services.inventory_past import nodes_at, summary_at
from steelyard.services.labels import with_foreign
from steelyard.services.registrations import list_registrations

router = APIRouter(prefix="/v1", tags=["inventory"])
AtQuery = Annotated[
    int | None, Query(ge=0, le=2**62, description="µs UTC: as it was then; now without it")
]
NameQuery = Annotated[str | None, Query(max_length=63)]


@router.get("/inventory")
def list_nodes(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    cluster: NameQuery = None,
    device_class: Annotated[DeviceClass | None, Query(alias="class")] = None,
    pool: NameQuery = None,
    at: AtQuery = None,
) -> dict[str, Any]:
    """Nodes with their devices, now or as they were at an instant. Holders are named where the caller may see
    their project."""
    options: dict[str, Any] = {
        "cluster": cluster,
        "device_class": None if device_class is None else device_class.value,
        "pool": pool,
        "cursor": page.after,
        "limit": page.limit,
    }
    if at is not None:
        nodes, following = nodes_at(services.store, who, at, **options)
    else:
        nodes, following = inventory.nodes_page(services.store, who, **options)
    return paged(with_foreign(services.store, nodes), following)


@router.get("/inventory/summary")
def summary(who: PrincipalDep, services: ServicesDep, at: AtQuery = None) -> dict[str, Any]:
    """Clusters, and by class: capacity = held + free + reserved + unavailable + unknown. Of an instant that
    has passed: by class."""
    if at is not None:
        return summary_at(services.store, who, at)
    return inventory.summary_page(services.store, who)


@router.get("/inventory/diff")
def diff(
    who: PrincipalDep,
    services: ServicesDep,
    start: Annotated[int, Query(alias="from", ge=0, le=2**62, description="µs UTC")],
    end: Annotated[
        int | None, Query(alias="to", ge=0, le=2**62, description="µs UTC; now by default")
    ] = None,
) -> dict[str, Any]:
    """What changed between two instants: what, from what to what, when last, by whom and why."""
    return difference(services.store, who, start, end)


@router.get("/registrations")
def registrations(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    outcome: Annotated[RegistrationOutcome | None, Query(description="only these")] = None,
) -> dict[str, Any]:
    """What became of every device that was found, the newest first: registered, refused, duplicate,
    retired."""
    found = list_registrations(services.store, who, outcome=outcome, cursor=page.after, limit=page.limit)
    return paged(*found)


@router.get("/devices/{device_id:path}")
def device(device_id: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """A device with its facts, pools and availability over time, by its id, UID or CLUSTER/UID."""
    return show_device(services.store, who, device_id)

"""Inventory: nodes and devices with live state, sums by class, a device with its history."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.api.paging import PageDep, paged
from steelyard.model.resources import DeviceClass
from steelyard.services import inventory
from steelyard.services.device_page import show_device

router = APIRouter(prefix="/v1", tags=["inventory"])
NameQuery = Annotated[str | None, Query(max_length=63)]


@router.get("/inventory")
def list_nodes(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    cluster: NameQuery = None,
    device_class: Annotated[DeviceClass | None, Query(alias="class")] = None,
    pool: NameQuery = None,
) -> dict[str, Any]:
    """Nodes with their devices. Holders are named where the caller may see their project."""
    found, following = inventory.nodes_page(
        services.store,
        who,
        cluster=cluster,
        device_class=None if device_class is None else device_class.value,
        pool=pool,
        cursor=page.after,
        limit=page.limit,
    )
    return paged(found, following)


@router.get("/inventory/summary")
def summary(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Clusters, and by class: capacity = held + free + reserved + unavailable + unknown."""
    return inventory.summary_page(services.store, who)


@router.get("/devices/{device_id:path}")
def device(device_id: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """A device with its facts, pools and availability over time, by its id, UID or CLUSTER/UID."""
    return show_device(services.store, who, device_id)

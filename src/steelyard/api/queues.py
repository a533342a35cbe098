"""Queues and quotas: the two trees with what is used, available and could ever be."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.api.desk import DeskDep
from steelyard.services import queues
from steelyard.services.quota_inventory import quota_inventory
from steelyard.services.waiting_order import MOST, waiting_order

router = APIRouter(prefix="/v1", tags=["queues"])


@router.get("/queues")
def list_queues(who: PrincipalDep, services: ServicesDep) -> list[dict[str, Any]]:
    """Cohorts and queues, parents before children."""
    return queues.queue_page(services.store, who)


@router.get("/queues/{name}/waiting")
def list_waiting(
    name: str, who: PrincipalDep, desk: DeskDep, limit: Annotated[int, Query(ge=1, le=MOST)] = 50
) -> dict[str, Any]:
    """The order in which what waits in a queue is looked at, and what puts each before the next."""
    return waiting_order(desk, who, name, limit)


@router.get("/quota-inventory")
def compare_with_inventory(who: PrincipalDep, desk: DeskDep) -> list[dict[str, Any]]:
    """By class and flavor, what queues own, what is there, what of it is offered, and the difference."""
    return quota_inventory(desk.store, desk.snapshots, who)


@router.get("/quotas")
def list_quotas(who: PrincipalDep, services: ServicesDep) -> list[dict[str, Any]]:
    """Teams, projects and namespaces, parents before children."""
    return queues.quota_page(services.store, who)

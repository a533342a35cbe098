"""Queues and quotas: the two trees with what is used, available and could ever be."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.services import queues

router = APIRouter(prefix="/v1", tags=["queues"])


@router.get("/queues")
def list_queues(who: PrincipalDep, services: ServicesDep) -> list[dict[str, Any]]:
    """Cohorts and queues, parents before children."""
    return queues.queue_page(services.store, who)


@router.get("/quotas")
def list_quotas(who: PrincipalDep, services: ServicesDep) -> list[dict[str, Any]]:
    """Teams, projects and namespaces, parents before children."""
    return queues.quota_page(services.store, who)

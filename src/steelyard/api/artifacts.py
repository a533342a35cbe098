"""Results of a workload: what its members left, with digests."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.model.ids import parse
from steelyard.services.artifacts import list_artifacts

router = APIRouter(prefix="/v1/workloads/{workload_id}/artifacts", tags=["artifacts"])


@router.get("")
def artifacts(workload_id: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Each member's results. `sha256` null: not computed yet; `there` false: removed since."""
    number = parse("workload", workload_id)
    return {"items": list_artifacts(services.store, services.engines.get, who, number)}

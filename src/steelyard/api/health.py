"""Is the server there, and can it work?"""

from __future__ import annotations

from fastapi import APIRouter

from steelyard.api.context import ServicesDep
from steelyard.services.health import check_ready

router = APIRouter(tags=["health"])


@router.get("/healthz")
def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(services: ServicesDep) -> dict[str, str]:
    """The database answers and the writer runs; 503 otherwise."""
    check_ready(services.store)
    return {"status": "ok"}

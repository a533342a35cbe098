"""Is the server there, and can it work?"""

from __future__ import annotations

from fastapi import APIRouter

from steelyard.api.context import ServicesDep
from steelyard.services.health import check_ready

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz")
def readyz(services: ServicesDep) -> dict[str, str]:
    """The database can be written to and is of this release, the last write succeeded, somebody holds or held
    the control lease, and the server is not about to stop; else 503 with the codes of all that is missing."""
    check_ready(services.store, with_lease="control" in services.extra, stopping=services.stopping.is_set())
    return {"status": "ok"}

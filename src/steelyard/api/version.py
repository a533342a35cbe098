"""What this server is, and the description of its routes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from steelyard import __version__
from steelyard.api.context import ServicesDep
from steelyard.locale import LANGUAGES

router = APIRouter(prefix="/v1", tags=["version"])


@router.get("/version")
def version(services: ServicesDep) -> dict[str, Any]:
    """Version, installation and languages."""
    return {
        "version": __version__,
        "install_id": services.store.install_id,
        "languages": list(LANGUAGES),
    }


@router.get("/openapi.json", include_in_schema=False)
def openapi(request: Request) -> dict[str, Any]:
    """The OpenAPI description, in English."""
    described: dict[str, Any] = request.app.openapi()
    return described

"""Usage: what was held, by whom, what was not and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.services import usage

router = APIRouter(prefix="/v1", tags=["usage"])
Instant = Annotated[int | None, Query(ge=0, le=2**62, description="µs UTC")]


@router.get("/usage")
def get_usage(
    who: PrincipalDep,
    services: ServicesDep,
    start: Annotated[int | None, Query(alias="from", ge=0, le=2**62, description="µs UTC")] = None,
    end: Annotated[
        int | None, Query(alias="to", ge=0, le=2**62, description="µs UTC; now by default")
    ] = None,
    by: Annotated[str, Query(max_length=300, description="dimensions, comma between them")] = ",".join(
        usage.DEFAULT_BY
    ),
) -> dict[str, Any]:
    """Quantity × µs by dimension within a window, as decimal text; `closes`: it sums to the capacity."""
    names = [name.strip() for name in by.split(",") if name.strip()]
    return usage.report(services.store, who, start, end, names)

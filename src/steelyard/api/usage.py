"""Usage: what was held, by whom, what was not and why."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.reports.review import review
from steelyard.services import usage
from steelyard.services.review import review_rows

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


@router.get("/usage/review")
def get_review(
    who: PrincipalDep,
    services: ServicesDep,
    start: Annotated[int | None, Query(alias="from", ge=0, le=2**62, description="µs UTC")] = None,
    end: Annotated[
        int | None, Query(alias="to", ge=0, le=2**62, description="µs UTC; now by default")
    ] = None,
) -> dict[str, Any]:
    """The five questions of a review of a window, each with a code, params and the rows it is answered
    from: where is resource idle, which kind queues worst, which failures recur, whose usage has no owner, and
    whether rules or resources come next. For whoever is bound to the whole installation."""
    return review(review_rows(services.store, who, start, end))

"""Recurring failures: grouped by signature, the worst first."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.idempotency import json_answer
from steelyard.api.texts import with_texts
from steelyard.services import failures
from steelyard.store.failed import FailureFilter

router = APIRouter(prefix="/v1", tags=["failures"])
Word = Annotated[str | None, Query(max_length=63)]


@router.get("/failures")
def list_failures(
    who: PrincipalDep,
    services: ServicesDep,
    lang: LanguageDep,
    start: Annotated[int, Query(alias="from", ge=0, le=2**62, description="µs UTC")] = 0,
    end: Annotated[int, Query(alias="to", ge=0, le=2**62, description="µs UTC; now by default")] = 2**62,
    project: Word = None,
    stage: Word = None,
    group: Word = None,
    order: Annotated[str, Query(max_length=20, description=" | ".join(failures.ORDERS))] = "count",
    limit: Annotated[int, Query(ge=1, le=failures.MAX_GROUPS)] = 50,
) -> Response:
    """Failed attempts of the caller's projects, and refusals, by signature: count, time lost, the newest."""
    wanted = FailureFilter(start, end, project, stage, group)
    found = failures.recurring(services.store, who, wanted, order=order, limit=limit)
    return json_answer(with_texts(found, lang))

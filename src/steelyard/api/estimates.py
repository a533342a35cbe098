"""When what waits will start."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.desk import DeskDep
from steelyard.api.lanes import QUESTIONS
from steelyard.services.estimates import estimates_page

router = APIRouter(prefix="/v1", tags=["estimates"])


@router.get("/estimates")
async def estimates(
    who: PrincipalDep,
    desk: DeskDep,
    workload: Annotated[str | None, Query(max_length=16, description="id of one workload")] = None,
    project: Annotated[str | None, Query(max_length=63)] = None,
) -> dict[str, Any]:
    """`[earliest, latest]` (µs UTC) of the start of what waits and the caller may see; null: not known, and
    `why`. `coverage`: how many starts of the last days fell into the interval they had when they were first
    looked at."""
    return await QUESTIONS.run(partial(estimates_page, desk, who, workload, project))

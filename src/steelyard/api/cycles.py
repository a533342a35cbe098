"""Cycles of the scheduling loop: what each decided, and whether deciding again gives the same."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.desk import DeskDep
from steelyard.api.idempotency import json_answer
from steelyard.api.lanes import QUESTIONS
from steelyard.api.paging import PageDep, paged
from steelyard.api.texts import with_texts
from steelyard.model.ids import parse
from steelyard.services import cycles, replays

router = APIRouter(prefix="/v1/cycles", tags=["cycles"])
windows = APIRouter(prefix="/v1", tags=["cycles"])
Instant = Annotated[int | None, Field(ge=0, le=2**62)]


class Window(BaseModel):
    """`[since, until)` in µs UTC; without them from the first that is kept, until now."""

    model_config = ConfigDict(extra="forbid")
    since: Instant = None
    until: Instant = None
    cursor: Annotated[str | None, Field(max_length=63)] = None
    limit: Annotated[int, Field(ge=1, le=replays.MAX_STEP)] = 100


@router.get("")
def list_cycles(who: PrincipalDep, services: ServicesDep, page: PageDep) -> dict[str, Any]:
    """Cycles that changed something, the newest first."""
    return paged(*cycles.cycle_list(services.store, who, page.after, page.limit))


@router.get("/{cycle_id}")
def show(cycle_id: str, who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> Response:
    """One cycle whole."""
    return json_answer(with_texts(cycles.show(services.store, who, parse("cycle", cycle_id)), lang))


@router.post("/{cycle_id}/replay")
def replay(cycle_id: str, who: PrincipalDep, services: ServicesDep, desk: DeskDep) -> dict[str, Any]:
    """Decide it again from what it was made of. Changes nothing."""
    return cycles.replay_cycle(services.store, who, desk.snapshots, parse("cycle", cycle_id))


@windows.post("/cycles:replay")
async def replay_window(
    who: PrincipalDep, services: ServicesDep, desk: DeskDep, asked: Window
) -> dict[str, Any]:
    """Decide the cycles of a window again, oldest first, `limit` of them a call: the sums of this call, the
    first difference, and `next_cursor` while there are more. Changes nothing."""
    again = partial(replays.replay_window, services.store, who, desk.snapshots)
    return await QUESTIONS.run(partial(again, asked.since, asked.until, asked.cursor, asked.limit))

"""Cycles of the scheduling loop: what each decided, and whether deciding again gives the same."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.desk import DeskDep
from steelyard.api.idempotency import json_answer
from steelyard.api.paging import PageDep, paged
from steelyard.api.texts import with_texts
from steelyard.model.ids import parse
from steelyard.services import cycles

router = APIRouter(prefix="/v1/cycles", tags=["cycles"])


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

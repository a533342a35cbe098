"""Refusals: requests that were turned away, with their reasons."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.idempotency import json_answer
from steelyard.api.paging import PageDep, paged
from steelyard.api.texts import with_texts
from steelyard.model.ids import parse
from steelyard.services import refusals

router = APIRouter(prefix="/v1/refusals", tags=["refusals"])


@router.get("")
def list_refusals(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    lang: LanguageDep,
    project: Annotated[str | None, Query(max_length=63)] = None,
) -> Response:
    """Refusals of the caller's projects, and its own."""
    found, following = refusals.refusal_page(
        services.store, who, project=project, cursor=page.after, limit=page.limit
    )
    return json_answer(with_texts(paged(found, following), lang))


@router.get("/{refusal_id}")
def show(refusal_id: str, who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> Response:
    """One refusal."""
    return json_answer(with_texts(refusals.show(services.store, who, parse("refusal", refusal_id)), lang))

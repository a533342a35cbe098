"""The register of workloads: can we take this in?"""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, ServicesDep
from steelyard.api.idempotency import json_answer
from steelyard.api.paging import paged
from steelyard.api.texts import with_texts
from steelyard.services import register

router = APIRouter(prefix="/v1/register", tags=["register"])


@router.get("")
def list_entries(who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> Response:
    """Every entry with its answer: yes, pending or no, with the reasons."""
    found = paged(register.list_all(services.store, who), None)
    return json_answer(with_texts(found, lang))


@router.get("/{name}")
def show(name: str, who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> Response:
    """One entry, with what each pool says."""
    return json_answer(with_texts(register.show(services.store, who, name), lang))

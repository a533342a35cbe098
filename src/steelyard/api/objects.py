"""Declared objects: apply, export, read, retire."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, OriginDep, ServicesDep
from steelyard.api.etag import IfMatchDep, etag
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import PageDep, cut
from steelyard.locale import text
from steelyard.services import declared
from steelyard.services.declared import Declared
from steelyard.services.declared_step import Applied
from steelyard.services.documents import parse_documents
from steelyard.store.unit import Unit

router = APIRouter(prefix="/v1", tags=["objects"])


class Documents(BaseModel):
    """Declared documents, in any order."""

    model_config = ConfigDict(extra="forbid")
    documents: list[Any]


def view(item: Declared) -> dict[str, Any]:
    """One version of an object as shown."""
    return {
        "kind": item.kind,
        "metadata": {
            "name": item.name,
            "labels": item.labels,
            "version": item.version,
            "valid_from": item.valid_from,
            "valid_to": item.valid_to,
        },
        "spec": item.spec,
    }


def result(item: Applied, lang: str) -> dict[str, Any]:
    """What became of one document."""
    return {
        "kind": item.kind,
        "name": item.name,
        "action": item.action,
        "version": item.version,
        "diff": [{"path": c.path, "before": c.before, "after": c.after} for c in item.diff],
        "warnings": [
            {"code": w.code, "params": w.params, "text": text(w.code, w.params, lang)} for w in item.warnings
        ],
    }


@router.post("/objects:apply")
def apply(
    body: Documents,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    lang: LanguageDep,
    key: OnceDep,
    dry_run: bool = False,
    reason: Annotated[str | None, Query(max_length=500, description="why, for the log")] = None,
) -> Response:
    """Make the declared objects be as the documents say: all together or none. A dry run says what would
    change."""

    def record(unit: Unit, results: list[Applied]) -> None:
        if key is not None:
            key.record(unit, 200, {"results": [result(item, lang) for item in results]}, services.now())

    def act() -> Response:
        documents = parse_documents(body.documents)
        results = declared.apply(
            services.store, who, documents, dry_run=dry_run, origin=origin, on_unit=record, reason=reason
        )
        return json_answer({"results": [result(item, lang) for item in results]})

    return answer_once(services, key, act)


@router.get("/objects:export")
def export(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Every document that the caller may see, in apply order; applying them changes nothing."""
    return {"documents": declared.export(services.store, who)}


@router.get("/objects")
def list_objects(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    kind: Annotated[str | None, Query(max_length=63)] = None,
    at: Annotated[int | None, Query(ge=0, le=2**62, description="µs UTC")] = None,
) -> dict[str, Any]:
    """Objects as they are, or as they were at an instant."""
    found = declared.list_objects(services.store, who, kind, at)
    return cut(found, page, lambda item: f"{item.kind}/{item.name}", view)


@router.get("/objects/{kind}/{name}")
def get_object(kind: str, name: str, who: PrincipalDep, services: ServicesDep) -> Response:
    """The current version."""
    item = declared.get_object(services.store, who, kind, name)
    return json_answer(view(item), headers=etag(item.version))


@router.get("/objects/{kind}/{name}/history")
def history(kind: str, name: str, who: PrincipalDep, services: ServicesDep, page: PageDep) -> dict[str, Any]:
    """All versions, newest first."""
    found = declared.history(services.store, who, kind, name)
    return cut(found, page, lambda item: str(item.version), view)


@router.delete("/objects/{kind}/{name}")
def retire(
    kind: str,
    name: str,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    lang: LanguageDep,
    key: OnceDep,
    version: IfMatchDep,
    dry_run: bool = False,
) -> Response:
    """End an object that nothing uses. Its versions stay in the history."""

    def record(unit: Unit, results: list[Applied]) -> None:
        if key is not None:
            key.record(unit, 200, result(results[0], lang), services.now())

    def act() -> Response:
        done = declared.retire(
            services.store, who, kind, name, if_match=version, dry_run=dry_run, origin=origin, on_unit=record
        )
        return json_answer(result(done, lang))

    return answer_once(services, key, act)

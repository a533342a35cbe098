"""Releases that were not proven: what is kept in quarantine and by what, confirm, fence."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, OriginDep, Services, ServicesDep
from steelyard.api.etag import IfMatchDep, etag
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import PageDep, paged
from steelyard.api.texts import with_texts
from steelyard.services import releases
from steelyard.services.idempotency import Once, Recorded
from steelyard.services.releases import Asked, OnUnit
from steelyard.store.unit import Unit

router = APIRouter(prefix="/v1/releases", tags=["releases"])


class ConfirmBody(BaseModel):
    """`force`: without a new probe, on the caller's responsibility; wants a reason."""

    model_config = ConfigDict(extra="forbid")
    force: bool = False
    reason: Annotated[str | None, Field(max_length=releases.MAX_REASON)] = None


class FenceBody(BaseModel):
    """Why what is left is to be ended."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str | None, Field(max_length=releases.MAX_REASON)] = None


@router.get("")
def list_releases(
    who: PrincipalDep,
    services: ServicesDep,
    page: PageDep,
    lang: LanguageDep,
    closed: Annotated[bool | None, Query(description="only closed, only open ones; without it all")] = None,
) -> Response:
    """Unproven releases of the caller's projects, the newest first."""
    rows, following = releases.list_page(
        services.store, who, closed=closed, cursor=page.after, limit=page.limit
    )
    return json_answer(with_texts(paged(rows, following), lang))


@router.get("/{release_id}")
def show(release_id: str, who: PrincipalDep, services: ServicesDep, lang: LanguageDep) -> Response:
    """One unproven release: reasons, what is left, what was asked and answered."""
    view = releases.show(services.store, who, releases.number_of(release_id))
    return json_answer(with_texts(view, lang), headers=etag(view["version"]))


def _record(services: Services, key: Once | None) -> OnUnit:
    def record(unit: Unit, name: str) -> None:
        if key is not None:
            key.record(unit, 202, {"id": name}, services.now())

    return record


@router.post("/{release_id}/confirm", status_code=202)
def confirm(
    release_id: str,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    lang: LanguageDep,
    version: IfMatchDep,
    key: OnceDep,
    body: ConfirmBody | None = None,
) -> Response:
    """A new probe decides whether it is proven; with `force` the caller answers for it. The answer comes in
    `answer` of a later version."""
    given = body or ConfirmBody()
    asked = Asked.FORCE if given.force else Asked.CONFIRM
    return _ask(services, who, release_id, asked, given.reason, origin, lang, version, key)


@router.post("/{release_id}/fence", status_code=202)
def fence(
    release_id: str,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    lang: LanguageDep,
    version: IfMatchDep,
    key: OnceDep,
    body: FenceBody | None = None,
) -> Response:
    """End what is left within the ownership mark; accelerators of what can't be ended go out of service."""
    reason = None if body is None else body.reason
    return _ask(services, who, release_id, Asked.FENCE, reason, origin, lang, version, key)


def _ask(
    services: Services,
    who: PrincipalDep,
    release_id: str,
    asked: Asked,
    reason: str | None,
    origin: Any,
    lang: str,
    version: int | None,
    key: Once | None,
) -> Response:
    number = releases.number_of(release_id)

    def shown(view: dict[str, Any]) -> Response:
        return json_answer(with_texts(view, lang), 202, etag(view["version"]))

    def once() -> Response:
        noted = _record(services, key)
        return shown(
            releases.ask(
                services.store, who, number, asked, reason, if_match=version, origin=origin, on_unit=noted
            )
        )

    def again(_found: Recorded) -> Response:
        return shown(releases.show(services.store, who, number))

    return answer_once(services, key, once, again)

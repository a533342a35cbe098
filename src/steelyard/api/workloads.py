"""Workloads: submit, list, show, explain, cancel, retry, hold, release."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, OriginDep, Services, ServicesDep
from steelyard.api.desk import DeskDep
from steelyard.api.etag import IfMatchDep, etag
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import PageDep, paged
from steelyard.api.problems import DRY_RUN, status_of
from steelyard.api.texts import with_texts
from steelyard.evidence.leaf import Origin
from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.organisation import Principal
from steelyard.model.workloads import WorkloadKind
from steelyard.services import scaling, workloads
from steelyard.services.idempotency import Once, Recorded
from steelyard.services.refusals import told_again, told_body
from steelyard.services.workload_parts import MAX_REPLICAS
from steelyard.services.workloads import Desk, OnUnit
from steelyard.store.unit import Unit
from steelyard.store.workloads import WorkloadFilter

router = APIRouter(prefix="/v1/workloads", tags=["workloads"])
NameQuery = Annotated[str | None, Query(max_length=63)]


def _record(services: Services, key: Once | None, status: int) -> OnUnit:
    """Notes the id in the unit; a request that is sent again is answered with the workload as it is then."""

    def record(unit: Unit, name: str) -> None:
        if key is not None:
            key.record(unit, status, {"id": name}, services.now())

    return record


def _shown(view: dict[str, Any], lang: str, status: int = 200) -> Response:
    return json_answer(with_texts(view, lang), status, etag(view["version"]))


@router.post("", status_code=201, responses=DRY_RUN)
def submit(
    document: Annotated[Any, Body(description="A Workload document: kind, metadata, spec")],
    who: PrincipalDep,
    services: ServicesDep,
    desk: DeskDep,
    origin: OriginDep,
    lang: LanguageDep,
    key: OnceDep,
    dry_run: bool = False,
) -> Response:
    """Submit a workload. A dry run answers 200 with `would`: start, wait or refuse. What is refused is
    answered 422 with every reason, and recorded; sent again under its Idempotency-Key, recorded once."""

    def turned(unit: Unit, error: SteelyardError) -> None:
        if key is not None:
            key.record(unit, status_of(error), told_body(error), services.now())

    def act() -> Response:
        if dry_run:
            return json_answer(with_texts(workloads.submit(desk, who, document, dry_run=True), lang))
        on_unit = _record(services, key, 201)
        view = workloads.submit(desk, who, document, origin=origin, on_unit=on_unit, on_turned=turned)
        return _shown(view, lang, 201)

    def again(found: Recorded) -> Response:
        if found.status >= 400:
            raise told_again(found.body)
        view = workloads.show(desk, who, parse("workload", found.body["id"]))
        return _shown(view, lang, found.status)

    return answer_once(services, None if dry_run else key, act, again)


@router.get("")
def list_workloads(
    who: PrincipalDep,
    desk: DeskDep,
    page: PageDep,
    lang: LanguageDep,
    project: NameQuery = None,
    namespace: NameQuery = None,
    kind: WorkloadKind | None = None,
    phase: Annotated[Phase | Literal["live"] | None, Query()] = None,
    outcome: Outcome | None = None,
    queue: NameQuery = None,
    q: Annotated[str | None, Query(max_length=63, description="part of the name")] = None,
    group: Annotated[str | None, Query(max_length=16, description="id of a group's first")] = None,
    order: Literal["newest", "oldest"] = "newest",
) -> Response:
    """Workloads that the caller may see. Replicas of a service and tasks of an array are shown as one, by the
    first of them, unless a group, a phase or an outcome is asked for."""
    wanted = WorkloadFilter(
        project=project,
        namespace=namespace,
        kind=None if kind is None else kind.value,
        phase=None if phase is None else str(phase),
        outcome=None if outcome is None else outcome.value,
        queue=queue,
        text=q,
        group=None if group is None else parse("workload", group),
    )
    rows, following = workloads.list_page(desk, who, wanted, cursor=page.after, limit=page.limit, order=order)
    return json_answer(with_texts(paged(rows, following), lang))


@router.get("/{workload_id}")
def show(workload_id: str, who: PrincipalDep, desk: DeskDep, lang: LanguageDep) -> Response:
    """A workload with its reasons or verdict, and every attempt."""
    return _shown(workloads.show(desk, who, parse("workload", workload_id)), lang)


@router.get("/{workload_id}/explanation")
def explanation(workload_id: str, who: PrincipalDep, desk: DeskDep, lang: LanguageDep) -> Response:
    """Why it waits, what would start it now, and what would happen in the next cycle."""
    found = workloads.explain_workload(desk, who, parse("workload", workload_id))
    return json_answer(with_texts(found, lang))


@router.get("/{workload_id}/ahead/{other_id}")
def ahead(workload_id: str, other_id: str, who: PrincipalDep, desk: DeskDep, lang: LanguageDep) -> Response:
    """Which of two waiting workloads comes first: the factors of the order down to the one that decides."""
    found = workloads.compare_workloads(
        desk, who, parse("workload", workload_id), parse("workload", other_id)
    )
    return json_answer(with_texts(found, lang))


class Scale(BaseModel):
    """How many replicas are to run."""

    model_config = ConfigDict(extra="forbid")
    replicas: int = Field(ge=1, le=MAX_REPLICAS, strict=True)


@router.post("/{workload_id}/scale", status_code=202)
def scale(
    workload_id: str,
    body: Scale,
    who: PrincipalDep,
    services: ServicesDep,
    desk: DeskDep,
    origin: OriginDep,
    lang: LanguageDep,
    version: IfMatchDep,
    key: OnceDep,
) -> Response:
    """Ask for another number of replicas of a service. New ones are placed like any workload."""
    act = partial(scaling.scale, replicas=body.replicas)
    return _changed(act, workload_id, who, services, desk, origin, lang, version, key)


def _changed(
    act: Callable[..., dict[str, Any]],
    workload_id: str,
    who: Principal,
    services: Services,
    desk: Desk,
    origin: Origin,
    lang: str,
    version: int | None,
    key: Once | None,
) -> Response:
    """The answer to one change of a workload: done once under its key, then shown as it is."""
    number = parse("workload", workload_id)

    def once() -> Response:
        on_unit = _record(services, key, 202)
        view = act(desk, who, number, if_match=version, origin=origin, on_unit=on_unit)
        return _shown(view, lang, 202)

    def again(_found: Recorded) -> Response:
        return _shown(workloads.show(desk, who, number), lang, 202)

    return answer_once(services, key, once, again)


def _route(name: str, act: Callable[..., dict[str, Any]], about: str) -> None:
    def change(
        workload_id: str,
        who: PrincipalDep,
        services: ServicesDep,
        desk: DeskDep,
        origin: OriginDep,
        lang: LanguageDep,
        version: IfMatchDep,
        key: OnceDep,
    ) -> Response:
        return _changed(act, workload_id, who, services, desk, origin, lang, version, key)

    router.add_api_route(
        f"/{{workload_id}}/{name}", change, methods=["POST"], status_code=202, name=name, description=about
    )


_route("cancel", workloads.cancel, "Withdraw what waits; ask what has started to stop.")
_route("retry", workloads.retry, "The next attempt of a workload that ended without success.")
_route("hold", workloads.hold, "Keep a queued workload from being looked at.")
_route("release", workloads.release, "Let a held workload wait again.")

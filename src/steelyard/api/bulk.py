"""Many workloads in one request."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import LanguageDep, OriginDep, request_id_of
from steelyard.api.desk import DeskDep
from steelyard.api.idempotency import OnceDep, json_answer
from steelyard.api.problems import faults_of, problem_body, status_of
from steelyard.model.errors import RefusedError, SteelyardError
from steelyard.services.bulk import Outcome, submit_many

router = APIRouter(prefix="/v1", tags=["workloads"])


class Workloads(BaseModel):
    """Workload documents, at most 1,000."""

    model_config = ConfigDict(extra="forbid")
    documents: list[Any]


@router.post("/workloads:submit")
def submit(
    body: Workloads,
    request: Request,
    who: PrincipalDep,
    desk: DeskDep,
    origin: OriginDep,
    lang: LanguageDep,
    key: OnceDep,
) -> Response:
    """Submit many workloads. Each is admitted or turned away by itself: `results` has, in the order of the
    documents, `status` with either `id` or the `problem`. Under an Idempotency-Key each document is
    recorded by its place, so that a request sent again submits only what was not."""
    outcomes = submit_many(desk, who, body.documents, origin=origin, once=key, status_of=status_of)
    request_id = request_id_of(request)
    return json_answer({"results": [_result(one, lang, request_id) for one in outcomes]})


def _result(outcome: Outcome, lang: str, request_id: str) -> dict[str, Any]:
    if outcome.error is None:
        return {"status": 201, "id": outcome.id, "problem": None, "replayed": outcome.replayed}
    body = _problem(outcome.error, lang, request_id)
    return {"status": body["status"], "id": None, "problem": body, "replayed": outcome.replayed}


def _problem(error: SteelyardError, lang: str, request_id: str) -> dict[str, Any]:
    reasons = error.reasons if isinstance(error, RefusedError) else ()
    status, faults = status_of(error), faults_of(error)
    return problem_body(error.code, error.params, status, lang, request_id, reasons, faults)

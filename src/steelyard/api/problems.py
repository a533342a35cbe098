"""Errors as RFC 9457 problems: code and parameters of the error, its sentence in the reader's language."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import Match

from steelyard.api.context import language_of, origin_of, request_id_of, services_of
from steelyard.locale import error_text, problem_title, reason_text
from steelyard.model.errors import (
    ConflictError,
    Fault,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    Param,
    RefusedError,
    SteelyardError,
    UnauthenticatedError,
    UnavailableError,
)
from steelyard.services.reasons import reason_view
from steelyard.services.sessions import Identified

MEDIA_TYPE = "application/problem+json"
STATUS: dict[type[SteelyardError], int] = {
    InvalidError: 400,
    UnauthenticatedError: 401,
    ForbiddenError: 403,
    NotFoundError: 404,
    ConflictError: 409,
    RefusedError: 422,
    UnavailableError: 503,
}
_HEADERS = {401: {"WWW-Authenticate": "Bearer"}, 503: {"Retry-After": "1"}}
_OF_STATUS = {404: "route-unknown", 405: "method-not-allowed", 413: "body-too-large"}
#: Errors of a status of their own.
_STATUS_OF_CODE = {"body-too-large": 413}
#: What every route may answer with, for the OpenAPI description.
DESCRIBED: dict[int | str, dict[str, Any]] = {
    "default": {
        "description": "A problem (RFC 9457)",
        "content": {
            MEDIA_TYPE: {
                "schema": {
                    "type": "object",
                    "title": "Problem",
                    "required": ["type", "title", "status", "detail", "code", "params", "request_id"],
                    "properties": {
                        "type": {"type": "string", "description": "urn:steelyard:error:CODE"},
                        "title": {"type": "string"},
                        "status": {"type": "integer"},
                        "detail": {"type": "string", "description": "A sentence by Accept-Language"},
                        "code": {"type": "string"},
                        "params": {"type": "object"},
                        "request_id": {"type": "string"},
                        "reasons": {"type": "array", "items": {"type": "object"}},
                        "refusal": {"type": "string", "description": "Id of the record of a refusal"},
                        "errors": {
                            "type": "array",
                            "items": {"type": "object", "required": ["pointer", "code", "params"]},
                            "description": "All that is wrong in a document, each with a JSON pointer to it",
                        },
                    },
                }
            }
        },
    }
}
#: A route that makes something answers 200 instead when it is a dry run.
DRY_RUN: dict[int | str, dict[str, Any]] = {200: {"description": "What a dry run would do"}}
_CHOICES = frozenset({"enum", "literal_error"})
_QUOTED = re.compile(r"'([^']*)'")
_log = structlog.get_logger("steelyard.api")


def status_of(error: SteelyardError) -> int:
    """The HTTP status of an error."""
    if error.code in _STATUS_OF_CODE:
        return _STATUS_OF_CODE[error.code]
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem_body(
    code: str, params: dict[str, Param], status: int, lang: str, request_id: str, reasons: Any = (),
    faults: Iterable[Fault] = (),
) -> dict[str, Any]:  # fmt: skip
    """One error as a problem. `faults`: all that is wrong in a document, the error itself the first."""
    body: dict[str, Any] = {
        "type": f"urn:steelyard:error:{code}",
        "title": problem_title(status, lang),
        "status": status,
        "detail": error_text(code, params, lang, reasons),
        "code": code,
        "params": params,
        "request_id": request_id,
    }
    if reasons:
        body["reasons"] = [{**reason_view(reason), "text": reason_text(reason, lang)} for reason in reasons]
    errors = [{"pointer": one.pointer, "code": one.code, "params": one.params} for one in faults]
    if errors:
        body["errors"] = errors
    if params.get("refusal") is not None:
        body["refusal"] = params["refusal"]
    return body


def problem(
    code: str, params: dict[str, Param], status: int, lang: str, request_id: str, reasons: Any = (),
    faults: Iterable[Fault] = (),
) -> JSONResponse:  # fmt: skip
    """The answer for one error."""
    body = problem_body(code, params, status, lang, request_id, reasons, faults)
    return JSONResponse(body, status, headers=_HEADERS.get(status), media_type=MEDIA_TYPE)


def answer(request: HTTPConnection, error: SteelyardError) -> JSONResponse:
    """The answer to a request that met one of our errors."""
    reasons = error.reasons if isinstance(error, RefusedError) else ()
    lang, request_id = language_of(request), request_id_of(request)
    return problem(error.code, error.params, status_of(error), lang, request_id, reasons, faults_of(error))


def faults_of(error: SteelyardError) -> tuple[Fault, ...]:
    """All that is wrong in a document, where the error is about one."""
    return error.faults if isinstance(error, InvalidError) else ()


def install(app: FastAPI) -> None:
    """Make the app answer every error with a problem."""
    app.add_exception_handler(SteelyardError, _steelyard)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unforeseen)


def _steelyard(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, SteelyardError)
    note(request, error, request.method)
    return answer(request, error)


def note(request: HTTPConnection, error: SteelyardError, method: str) -> None:
    """Who tried what it may not stands in the audit."""
    who = getattr(request.state, "identified", None)
    if not isinstance(who, Identified):
        return
    route = getattr(request.scope.get("route"), "path", "")
    services_of(request).attempts.access(
        who.principal,
        error,
        origin_of(request),
        method=method,
        route=route,
        named=request.path_params,
    )


def _validation(request: Request, error: Exception) -> JSONResponse:
    """The first thing that pydantic found, without what was given (it may be long or secret)."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] in _CHOICES and first["loc"][0] == "query":
        return answer(request, _not_a_choice(error, str(first["loc"][1])))
    path = ".".join(str(part) for part in first["loc"] if part != "body")[:200]
    return answer(request, InvalidError("request-invalid", path=path, problem=str(first["type"])[:60]))


def _not_a_choice(error: RequestValidationError, name: str) -> InvalidError:
    """A query parameter that is none of a closed list, with the list (several where types are united)."""
    told = [
        str(one.get("ctx", {}).get("expected", ""))
        for one in error.errors()
        if one["type"] in _CHOICES and one["loc"][:2] == ("query", name)
    ]
    expected = dict.fromkeys(_QUOTED.findall(" ".join(told)))
    return InvalidError("field-invalid", path=name, expected=" | ".join(expected))


def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    code = _OF_STATUS.get(error.status_code, "request-failed")
    lang, request_id = language_of(request), request_id_of(request)
    told = problem(code, {}, error.status_code, lang, request_id)
    told.headers.update(error.headers or {})
    if error.status_code == 405:
        told.headers["Allow"] = ", ".join(_allowed(request, told.headers.get("Allow", "")))
    return told


def _allowed(request: Request, first: str) -> list[str]:
    """Methods of every route at the address; the framework names those of the first one only."""
    found = {method for method in first.split(", ") if method}
    for route in _routes(request.app.routes):
        if route.matches(request.scope)[0] is not Match.NONE:
            found |= set(getattr(route, "methods", None) or ())
    return sorted(found)


def _routes(served: Iterable[Any]) -> Iterator[Any]:
    """Newer versions of the framework keep an included router as one route."""
    for route in served:
        inner = getattr(route, "original_router", None)
        yield from [route] if inner is None else _routes(inner.routes)


def _unforeseen(request: Request, error: Exception) -> JSONResponse:
    """The edge of a request: what nobody foresaw is logged with the request's id and told without detail."""
    request_id = request_id_of(request)
    _log.error("request failed", request_id=request_id, path=request.url.path, exc_info=error)
    return problem("internal-error", {}, 500, language_of(request), request_id)

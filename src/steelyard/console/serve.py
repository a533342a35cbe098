"""How a page is served: read the form, find the session, run the page in a thread, show what went wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

import anyio.to_thread
import structlog
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from steelyard.console import answers
from steelyard.console.context import Console
from steelyard.console.cookies import (
    LANGUAGE,
    VISITOR,
    Preferences,
    keep,
    new_visitor,
    read_secret,
    set_secret,
)
from steelyard.console.guard import check_form, local_path
from steelyard.console.speech import Speech
from steelyard.console.visit import Visit
from steelyard.locale import LANGUAGES
from steelyard.model.errors import (
    InvalidError,
    RefusedError,
    SteelyardError,
    UnauthenticatedError,
    UnavailableError,
)
from steelyard.model.ids import render
from steelyard.services.sessions import Identified

T = TypeVar("T")
MAX_FORM = 1024 * 1024
MAX_FIELDS = 200
#: Signing in costs time and memory on purpose: few do so at once, and few wait.
_SIGN_INS: RunVar[CapacityLimiter] = RunVar("console-sign-ins")
MAX_SIGN_INS, MAX_WAITING = 2, 100
_log = structlog.get_logger("steelyard.console")


@dataclass(frozen=True, slots=True)
class Page:
    """A page or a form. `open`: for visitors, too. `unchanged`: even before the password was changed."""

    method: str
    path: str
    function: Callable[[Visit], Response]
    open: bool = False
    unchanged: bool = False
    slow: bool = False  # it checks a password
    whole_house: bool = False  # it reads everything there is: one after another
    question: bool = False  # it asks the scheduler for many cycles: likewise, beside those


def endpoint(console: Console, page: Page) -> Callable[[Request], Awaitable[Response]]:
    """The page as Starlette calls it."""

    async def serve(request: Request) -> Response:
        request_id = render("request", console.store.ids.next())
        try:
            form = await _read_form(request) if page.method == "POST" else {}
            answer = partial(_answer, console, page, request, form, request_id)
            if page.whole_house:
                response = await console.whole_house.run(answer)
            elif page.question:
                response = await console.questions.run(answer)
            else:
                limiter = _limiter() if page.slow else None
                response = await anyio.to_thread.run_sync(answer, limiter=limiter)
        except SteelyardError as error:
            return answer_error(_visit(console, page, request, None, "", {}, request_id), error)
        response.headers["X-Request-Id"] = request_id
        return response

    return serve


def _limiter() -> CapacityLimiter:
    try:
        found = _SIGN_INS.get()
    except LookupError:
        found = CapacityLimiter(MAX_SIGN_INS)
        _SIGN_INS.set(found)
    if found.statistics().tasks_waiting >= MAX_WAITING:
        raise UnavailableError("too-many-sign-ins")
    return found


async def _read_form(request: Request) -> dict[str, str]:
    """The fields of a form. Raises InvalidError for one that is too large or not a form."""
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_FORM:
            raise InvalidError("body-too-large", most=MAX_FORM)
        parts.append(part)
    if not request.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        raise InvalidError("form-invalid")
    try:
        pairs = parse_qsl(
            b"".join(parts).decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise InvalidError("form-invalid") from None
    return dict(pairs)


def _answer(
    console: Console, page: Page, request: Request, form: dict[str, str], request_id: str
) -> Response:
    secret, known = read_secret(request), None
    try:
        known = console.principals.identify(secret) if secret else None
    except UnauthenticatedError:
        secret = ""
    visitor = "" if known is not None else read_secret(request, VISITOR) or new_visitor()
    holder = secret if known is not None else visitor
    visit = _visit(console, page, request, known, holder, form, request_id)
    response = _guarded(page, visit)
    if visitor and visitor != read_secret(request, VISITOR):
        set_secret(request, response, visitor, VISITOR)
    if request.query_params.get("lang") in LANGUAGES:
        keep(request, response, LANGUAGE, visit.preferences.lang)
    return response


def _visit(
    console: Console,
    page: Page,
    request: Request,
    known: Identified | None,
    secret: str,
    form: dict[str, str],
    request_id: str,
) -> Visit:
    preferences = Preferences.of(request)
    speech = Speech(preferences.lang, preferences.zone)
    return Visit(request, page.path, console, preferences, speech, known, secret, form, request_id)


def _guarded(page: Page, visit: Visit) -> Response:
    """The page, or where its reader has to go first, or the page of what went wrong."""
    try:
        if visit.identified is None and not page.open:
            return visit.go(sign_in_path(visit))
        if page.method == "POST":
            check_form(visit.request, visit.secret, visit.form)
        if visit.must_change and not (page.unchanged or page.open):
            return visit.go("/password")
        return page.function(visit)
    except UnauthenticatedError as error:
        return answer_error(visit, error) if page.open else visit.go(sign_in_path(visit))
    except SteelyardError as error:
        visit.note(error)
        return answer_error(visit, error)
    except Exception as error:  # the edge of a request: what nobody foresaw is logged with the request's id
        _log.error("page failed", request_id=visit.request_id, path=visit.path, exc_info=error)
        return _unforeseen(visit)


def _unforeseen(visit: Visit) -> Response:
    try:
        return visit.show("error.html", 500, number=500, code="internal-error", params={}, reasons=())
    except Exception as error:  # even its page failed: the same in plain words
        _log.error("page of an error failed", request_id=visit.request_id, exc_info=error)
        return PlainTextResponse(
            visit.speech.error("internal-error"), 500, headers={"X-Request-Id": visit.request_id}
        )


def sign_in_path(visit: Visit) -> str:
    """Where to sign in, and where to go then."""
    place = local_path(visit.place) if visit.request.method == "GET" else "/"
    return "/sign-in" if place == "/" else f"/sign-in?{urlencode({'next': place})}"


def answer_error(visit: Visit, error: SteelyardError) -> Response:
    """The page of an error: its sentence, and every reason that comes with it."""
    status = answers.status_of(error)
    reasons = error.reasons if isinstance(error, RefusedError) else ()
    return visit.show(
        "error.html", status, number=status, code=error.code, params=error.params, reasons=reasons
    )

"""The console as one app: pages of every noun from a list, static files, a page for what is not there."""

from __future__ import annotations

from typing import Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from steelyard.console import (
    account,
    admissions,
    device,
    evidence,
    failures,
    home,
    inventory,
    labels,
    past,
    places,
    pools,
    queues,
    submit,
    support,
    system,
    usage,
    what_if,
    workload,
    workloads,
)
from steelyard.console.context import Console
from steelyard.console.serve import Page, answer_error, endpoint
from steelyard.console.templates import TYPES, static
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError, NotFoundError


class HasPages(Protocol):
    """A module of pages."""

    PAGES: list[Page]


#: A module a noun.
MODULES: tuple[HasPages, ...] = (
    account,
    home,
    workloads,
    workload,
    submit,
    past,
    inventory,
    device,
    places,
    pools,
    labels,
    admissions,
    support,
    queues,
    what_if,
    usage,
    failures,
    evidence,
    system,
)
_FOREVER = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


def pages() -> list[Page]:
    """Every page there is."""
    return [page for module in MODULES for page in module.PAGES]


def first_parts() -> frozenset[str]:
    """The first parts of all our addresses."""
    return frozenset({"static", "favicon.ico", *(page.path.split("/")[1] for page in pages())})


def create_console(console: Console) -> Starlette:
    """The app over its services."""
    routes = [Route(page.path, endpoint(console, page), methods=[page.method]) for page in pages()]
    nowhere = Page("GET", "/{rest:path}", _nowhere, open=True)
    routes.append(Route("/static/{digest}/{name}", _static, methods=["GET"]))
    routes.append(Route("/favicon.ico", _icon, methods=["GET"]))
    routes.append(Route("/{rest:path}", endpoint(console, nowhere)))
    wrong = endpoint(console, Page("GET", "/{rest:path}", _wrong_method, open=True))

    async def method_not_allowed(request: Request, error: Exception) -> Response:
        response = await wrong(request)
        response.headers.update(getattr(error, "headers", None) or {})
        return response

    return Starlette(routes=routes, exception_handlers={405: method_not_allowed})


def _wrong_method(visit: Visit) -> Response:
    return answer_error(visit, InvalidError("method-not-allowed"))


def _nowhere(visit: Visit) -> Response:
    return answer_error(visit, NotFoundError("route-unknown"))


async def _static(request: Request) -> Response:
    name = request.path_params["name"]
    data = static(name)
    if data is None:
        return Response(status_code=404)
    return Response(data, media_type=TYPES[name.rpartition(".")[2]], headers=_FOREVER)


async def _icon(_request: Request) -> Response:
    return Response(static("icon.svg") or b"", media_type=TYPES["svg"], headers=_FOREVER)

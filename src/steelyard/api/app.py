"""The REST API as one app: routers from a list, a credential before every one of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI

from steelyard import __version__
from steelyard.api import (
    admissions,
    artifacts,
    audit,
    bulk,
    cycles,
    doctor,
    estimates,
    events,
    executions,
    failures,
    flags,
    health,
    inventory,
    labels,
    logs,
    metrics,
    objects,
    policy,
    pools,
    problems,
    queues,
    refusals,
    register,
    releases,
    sessions,
    tokens,
    usage,
    users,
    version,
    what_if,
    workloads,
)
from steelyard.api.auth import admit, identify
from steelyard.api.context import Services
from steelyard.api.edge import Edge
from steelyard.model.ids import render

#: Answer without a credential; `auth.OPEN_ROUTES` names every route of theirs.
OPEN_ROUTERS: list[APIRouter] = [health.router, sessions.open_router]
#: A module a noun.
ROUTERS: list[APIRouter] = [
    sessions.router,
    users.router,
    tokens.router,
    objects.router,
    workloads.router,
    bulk.router,
    logs.router,
    artifacts.router,
    refusals.router,
    releases.router,
    inventory.router,
    flags.router,
    pools.router,
    labels.router,
    admissions.router,
    register.router,
    queues.router,
    what_if.router,
    estimates.router,
    policy.router,
    cycles.router,
    cycles.windows,
    failures.router,
    usage.router,
    audit.router,
    events.router,
    doctor.router,
    metrics.router,
    version.router,
]
#: Doors that are no requests: each asks for the credential itself, before it opens.
SOCKET_ROUTERS: list[APIRouter] = [executions.router]
_ABOUT = "Steelyard's REST API. Times are integer microseconds UTC. Descriptions here are in English."


def create_app(services: Services, *, more: list[APIRouter] | None = None) -> FastAPI:
    """The app over its services. `more` routers also stand behind the credential."""
    app = FastAPI(
        title="Steelyard",
        version=__version__,
        description=_ABOUT,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        responses=problems.DESCRIBED,
        redirect_slashes=False,  # a path is known or it is not
        lifespan=_lifespan(services.threads),
    )
    app.state.services = services
    problems.install(app)
    for router in OPEN_ROUTERS:
        app.include_router(router)
    for router in [*ROUTERS, *(more or [])]:
        app.include_router(router, dependencies=[Depends(admit)])
    for router in SOCKET_ROUTERS:
        app.include_router(router)
    app.add_middleware(
        Edge,
        new_id=partial(_request_id, services),
        identify=identify,
        on_answer=None if services.meters is None else services.meters.request,
    )
    return app


def _request_id(services: Services) -> str:
    return render("request", services.store.ids.next())


def _lifespan(threads: int) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Bounds the threads that answer requests, so that they never outnumber the database's connections."""

    @asynccontextmanager
    async def running(_app: FastAPI) -> AsyncIterator[None]:
        anyio.to_thread.current_default_thread_limiter().total_tokens = threads
        yield

    return running

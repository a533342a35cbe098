"""What the routes are given: one container of services an app, and what belongs to one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.requests import HTTPConnection

from steelyard.engines.port import Engine
from steelyard.evidence.leaf import Origin
from steelyard.locale import negotiate
from steelyard.services.attempts import RefusedAttempts
from steelyard.services.metrics import Meters
from steelyard.services.sessions import Logins, Principals
from steelyard.services.workloads import Desk
from steelyard.store.store import Store


@dataclass(slots=True)
class Services:
    """Everything that routes call. `engines` serves logs only; `extra` is for routers of other rooms."""

    store: Store
    principals: Principals
    logins: Logins
    attempts: RefusedAttempts
    desk: Desk | None = None
    engines: Mapping[str, Engine] = field(default_factory=dict)
    signer: Any = None  # the log's signing key
    meters: Meters | None = None  # what this server counts
    threads: int = 16  # that answer requests; fewer than the database has connections
    stopping: Event = field(default_factory=Event)  # set when the server is told to end
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def now(self) -> Callable[[], int]:
        """The clock, µs UTC."""
        return self.store.now

    @staticmethod
    def over(store: Store, **more: Any) -> Services:
        """Services of a store, with what signs in and the rest as given."""
        attempts = RefusedAttempts(store)
        return Services(store, Principals(store), Logins(store, attempts), attempts, **more)


def services_of(request: HTTPConnection) -> Services:
    """The app's services."""
    found: Services = request.app.state.services
    return found


def language_of(request: HTTPConnection) -> str:
    """The reader's language by Accept-Language."""
    return negotiate(request.headers.get("accept-language"))


def request_id_of(request: HTTPConnection) -> str:
    """The request's id, as in its answer's X-Request-Id."""
    return str(request.scope.get("steelyard.request_id", ""))


def origin_of(request: HTTPConnection) -> Origin:
    """Where a change comes from, for its leaves: address and client as salted hashes."""
    conceal = services_of(request).store.writer.secrets.conceal
    return Origin(
        client=conceal(request.headers.get("user-agent")),
        ip=conceal(request.client.host if request.client is not None else None),
        request_id=request_id_of(request) or None,
    )


# Dependencies that never block are coroutines: each plain function would cost a change of thread.
async def _services(request: Request) -> Services:
    return services_of(request)


async def _language(request: Request) -> str:
    return language_of(request)


async def _origin(request: Request) -> Origin:
    return origin_of(request)


ServicesDep = Annotated[Services, Depends(_services)]
LanguageDep = Annotated[str, Depends(_language)]
OriginDep = Annotated[Origin, Depends(_origin)]

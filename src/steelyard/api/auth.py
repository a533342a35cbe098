"""Who asks: a bearer secret in the Authorization header, on every route but the few named here.

Whoever signed in with a one-time password gets further than `BEFORE_CHANGE` with a password of her own only.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPBearer
from starlette.requests import HTTPConnection

from steelyard.api.context import services_of
from steelyard.model.errors import UnauthenticatedError
from steelyard.model.organisation import Principal
from steelyard.services.sessions import Identified, require_own_password

#: (method, path) of what answers without a credential.
OPEN_ROUTES = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/v1/sessions")})
#: (method, path) of what a one-time password suffices for; the password is one's own.
BEFORE_CHANGE = frozenset(
    {("GET", "/v1/me"), ("DELETE", "/v1/sessions/current"), ("POST", "/v1/users/{name}/password")}
)
_scheme = HTTPBearer(auto_error=False, description="A token or a session's secret, `sy_…`.")


def identify(request: Request) -> Identified:
    """Who asks, with which credential. Raises UnauthenticatedError."""
    return identified(request)


def identified(request: HTTPConnection) -> Identified:
    """The same of any connection. Raises UnauthenticatedError."""
    known = getattr(request.state, "identified", None)
    if isinstance(known, Identified):
        return known
    found = services_of(request).principals.identify(_secret(request))
    request.state.identified = found
    return found


def _secret(request: HTTPConnection) -> str:
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise UnauthenticatedError("credential-missing")
    return secret.strip()


async def admit(request: Request, _described: Annotated[object, Depends(_scheme)] = None) -> None:
    """Stands before every route. Raises UnauthenticatedError, ForbiddenError `password-change-required`."""
    if not isinstance(getattr(request.state, "identified", None), Identified):
        request.state.identified = services_of(request).principals.remembered(_secret(request))
    found = request.state.identified or await run_in_threadpool(identified, request)
    own = found.principal.name
    route = (request.method, getattr(request.scope.get("route"), "path", ""))
    if route not in BEFORE_CHANGE or request.path_params.get("name", own) != own:
        require_own_password(found)


# What `admit` has found, before any of these is asked for: depending on it would have it all solved again.
async def _known(request: Request) -> Identified:
    return identified(request)


async def principal(request: Request) -> Principal:
    """Who asks."""
    return identified(request).principal


IdentifiedDep = Annotated[Identified, Depends(_known)]
PrincipalDep = Annotated[Principal, Depends(principal)]

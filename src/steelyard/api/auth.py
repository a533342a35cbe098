"""Who asks: a bearer secret in the Authorization header, on every route but the few named here."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPBearer

from steelyard.api.context import services_of
from steelyard.model.errors import UnauthenticatedError
from steelyard.model.organisation import Principal
from steelyard.services.sessions import Identified

#: (method, path) of what answers without a credential.
OPEN_ROUTES = frozenset({("GET", "/healthz"), ("GET", "/readyz"), ("POST", "/v1/sessions")})
_scheme = HTTPBearer(auto_error=False, description="A token or a session's secret, `sy_…`.")


def identify(request: Request, _described: Annotated[object, Depends(_scheme)] = None) -> Identified:
    """Who asks, with which credential. Raises UnauthenticatedError."""
    known = getattr(request.state, "identified", None)
    if isinstance(known, Identified):
        return known
    kind, _, secret = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "bearer" or not secret:
        raise UnauthenticatedError("credential-missing")
    found = services_of(request).principals.identify(secret.strip())
    request.state.identified = found
    return found


async def principal(found: Annotated[Identified, Depends(identify)]) -> Principal:
    """Who asks."""
    return found.principal


IdentifiedDep = Annotated[Identified, Depends(identify)]
PrincipalDep = Annotated[Principal, Depends(principal)]

"""Signing in and out, and who one is."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from steelyard.api.auth import IdentifiedDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.lanes import Lane
from steelyard.identity.passwords import MAX_LENGTH, MIN_LENGTH
from steelyard.services import sessions

#: Answers without a credential.
open_router = APIRouter(prefix="/v1", tags=["sessions"])
router = APIRouter(prefix="/v1", tags=["sessions"])
#: A flood of sign-ins takes no thread from signed-in people.
SIGN_INS = Lane("sign-ins", workers=3, waiting=200, code="too-many-sign-ins")


class SignIn(BaseModel):
    """Name and password."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    user: str = Field(max_length=200)
    password: str = Field(max_length=1024)


class Session(BaseModel):
    """A session's secret, shown once. Times are µs UTC."""

    token: str
    expires_at: int
    user: str


@open_router.post("/sessions", status_code=201)
async def sign_in(body: SignIn, services: ServicesDep, origin: OriginDep) -> Session:
    """Open a session of 12 hours."""
    login = partial(services.logins.login, body.user, body.password, origin=origin)
    issued = await SIGN_INS.run(login)
    return Session(token=issued.secret, expires_at=issued.expires_at or 0, user=issued.user)


@router.delete("/sessions/current", status_code=204)
def sign_out(who: IdentifiedDep, services: ServicesDep, origin: OriginDep) -> Response:
    """End the credential that this request came with."""
    sessions.logout(services.store, who, origin=origin)
    return Response(status_code=204)


@router.get("/me")
def me(who: IdentifiedDep) -> dict[str, Any]:
    """Who the credential stands for, and what it may do."""
    return {
        "id": who.principal.id,
        "name": who.principal.name,
        "bindings": [{"role": b.role.value, "project": b.project} for b in who.principal.bindings],
        "administrator": who.principal.is_administrator,
        "must_change_password": who.must_change,
        "password_length": {"least": MIN_LENGTH, "most": MAX_LENGTH},
        "credential": who.kind.value,
        "expires_at": who.expires_at,
    }

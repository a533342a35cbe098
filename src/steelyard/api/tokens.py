"""Tokens for programs."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import IdentifiedDep, PrincipalDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import PageDep, cut
from steelyard.identity.tokens import CredentialKind
from steelyard.model.ids import parse, render
from steelyard.model.units import parse_duration
from steelyard.services import sessions
from steelyard.services.sessions import Issued
from steelyard.store.accounts import CredentialRow
from steelyard.store.unit import Unit

router = APIRouter(prefix="/v1/tokens", tags=["tokens"])


class NewToken(BaseModel):
    """`expires_in`: seconds or a duration such as `30d`; none: until revoked. `user`: by administrators."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(min_length=1, max_length=100)
    user: str | None = Field(default=None, max_length=63)
    expires_in: int | str | None = None


def view(row: CredentialRow | Issued) -> dict[str, Any]:
    """A token as shown: never its secret."""
    return {
        "id": render("credential", row.id),
        "name": row.name,
        "user": row.user,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
    }


@router.get("")
def list_tokens(who: PrincipalDep, services: ServicesDep, page: PageDep) -> dict[str, Any]:
    """Tokens in force that the caller may see: all, or its own."""
    rows = sessions.list_tokens(services.store, who)
    return cut(rows, page, lambda row: render("credential", row.id), view)


@router.post("", status_code=201)
def create_token(
    body: NewToken, who: IdentifiedDep, services: ServicesDep, origin: OriginDep, key: OnceDep
) -> Response:
    """A new token, whose secret is shown in this answer only: sent again under the same Idempotency-Key,
    `token` is null. One that is asked for with a token ends with that token at the latest."""

    def record(unit: Unit, issued: Issued) -> None:
        if key is not None:
            key.record(unit, 201, {**view(issued), "token": None}, services.now())

    def act() -> Response:
        life = None if body.expires_in is None else parse_duration(body.expires_in)
        issued = sessions.create_token(
            services.store,
            who.principal,
            body.name,
            user=body.user,
            expires_in=life,
            at_most=who.expires_at if who.kind is CredentialKind.TOKEN else None,
            origin=origin,
            on_unit=record,
        )
        return json_answer({**view(issued), "token": issued.secret}, 201)

    return answer_once(services, key, act)


@router.delete("/{token_id}", status_code=204)
def revoke_token(token_id: str, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> Response:
    """Revoke a token at once."""
    sessions.revoke_token(services.store, who, parse("credential", token_id), origin=origin)
    return Response(status_code=204)

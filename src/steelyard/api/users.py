"""Accounts."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import IdentifiedDep, PrincipalDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import PageDep, cut
from steelyard.api.problems import DRY_RUN
from steelyard.model.ids import render
from steelyard.services import users
from steelyard.services.users import Account
from steelyard.store.unit import Unit

router = APIRouter(prefix="/v1/users", tags=["users"])


class NewUser(BaseModel):
    """A name as in declared objects."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(max_length=63)
    display_name: str | None = Field(default=None, max_length=253)


class NewPassword(BaseModel):
    """`old` is needed for one's own."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)
    new: str = Field(max_length=1024)
    old: str | None = Field(default=None, max_length=1024)


def view(account: Account) -> dict[str, Any]:
    """An account as shown."""
    return {
        "id": render("user", account.id),
        "name": account.name,
        "display_name": account.display_name,
        "disabled": account.disabled,
        "must_change_password": account.must_change,
        "created_at": account.created_at,
        "version": account.version,
    }


@router.get("")
def list_users(who: PrincipalDep, services: ServicesDep, page: PageDep) -> dict[str, Any]:
    """Accounts that the caller may see: all, or its own."""
    return cut(users.list_users(services.store, who), page, lambda account: account.name, view)


@router.post("", status_code=201, responses=DRY_RUN)
def create_user(
    body: NewUser,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    key: OnceDep,
    dry_run: bool = False,
) -> Response:
    """A new account with a one-time password, which is shown in this answer only: sent again under the
    same Idempotency-Key, `password` is null."""

    def record(unit: Unit, account: Account) -> None:
        if key is not None:
            key.record(unit, 201, {**view(account), "password": None}, services.now())

    def act() -> Response:
        made = users.create_user(
            services.store, who, body.name, body.display_name, origin=origin, dry_run=dry_run, on_unit=record
        )
        shown = {**view(made.account), "password": None if dry_run else made.password}
        return json_answer(shown, 200 if dry_run else 201)

    return answer_once(services, key, act)


@router.post("/{name}/password")
def change_password(
    name: str, body: NewPassword, who: IdentifiedDep, services: ServicesDep, origin: OriginDep
) -> dict[str, Any]:
    """Set a password; ends the account's other sessions."""
    account = users.change_password(
        services.store,
        who.principal,
        name,
        body.new,
        body.old,
        keep_credential=who.credential_id,
        origin=origin,
    )
    return view(account)


@router.post("/{name}/disable")
def disable_user(name: str, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> dict[str, Any]:
    """Disable an account and revoke all it could sign in with."""
    return view(users.disable_user(services.store, who, name, origin=origin))

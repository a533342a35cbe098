"""Pools: rules, members, what shuts them; closing and opening."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.paging import paged
from steelyard.services import pools

router = APIRouter(prefix="/v1/pools", tags=["pools"])


class Why(BaseModel):
    """A written reason; required."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str | None, Field(max_length=500)] = None


@router.get("")
def list_pools(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Every pool: purpose, who runs it, whether it is open, what is verified in it."""
    return paged(pools.list_all(services.store, who), None)


@router.get("/{name}")
def show(name: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """One pool: environment, fit conditions, admission and lending rules, members declared and found, when it
    was closed, by whom and why."""
    return pools.show(services.store, who, name)


@router.post("/{name}/close")
def close(
    name: str, body: Why, who: PrincipalDep, services: ServicesDep, origin: OriginDep
) -> dict[str, Any]:
    """Let nothing new in. What waits for the pool goes on waiting; what is submitted for it is refused."""
    return pools.close(services.store, who, name, body.reason, origin=origin)


@router.post("/{name}/open")
def open_again(
    name: str, body: Why, who: PrincipalDep, services: ServicesDep, origin: OriginDep
) -> dict[str, Any]:
    """End what shuts it. A drift is accepted as it is now; another one closes the pool again."""
    return pools.open_again(services.store, who, name, body.reason, origin=origin)

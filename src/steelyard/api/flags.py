"""Flags on nodes and devices: cordon, drain, maintenance, fence, uncordon; whom a drain would ask."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.idempotency import OnceDep, answer_once, json_answer
from steelyard.api.paging import paged
from steelyard.services import device_verify, flags
from steelyard.services.departures import departures
from steelyard.services.flags import Act
from steelyard.services.idempotency import Recorded
from steelyard.services.retire import retire
from steelyard.services.written import MAX_REASON
from steelyard.store.unit import Unit

router = APIRouter(prefix="/v1", tags=["flags"])
OnQuery = Annotated[str, Query(max_length=300, description="node or device: id, name, UID, or CLUSTER/NAME")]


class FlagBody(BaseModel):
    """`on`: a node or a device by its id, its name or UID, or either after CLUSTER/. `drain`: maintenance
    that asks what runs there to leave."""

    model_config = ConfigDict(extra="forbid")
    on: Annotated[str, Field(min_length=1, max_length=300)]
    act: Act
    reason: Annotated[str | None, Field(max_length=MAX_REASON)] = None
    drain: bool = False


class VerifyBody(BaseModel):
    """A workload that ran on the device and ended well; `valid_for`: for how long it verifies, `180d`."""

    model_config = ConfigDict(extra="forbid")
    device: Annotated[str, Field(min_length=1, max_length=300)]
    workload: Annotated[str, Field(max_length=40)]
    valid_for: Annotated[str | None, Field(max_length=20)] = None


@router.post("/verifications", status_code=201)
def verify(body: VerifyBody, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> Response:
    """A record that the device's model carries such work, in the environment of its pool."""
    said = device_verify.verify(
        services.store, who, body.device, body.workload, body.valid_for, origin=origin
    )
    return json_answer(said, 201)


class RetireBody(BaseModel):
    """A missing device that will not come back."""

    model_config = ConfigDict(extra="forbid")
    device: Annotated[str, Field(min_length=1, max_length=300)]
    reason: Annotated[str | None, Field(max_length=MAX_REASON)] = None


@router.post("/registrations", status_code=201)
def give_up(body: RetireBody, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> Response:
    """Retire a missing device: its capacity ends, as said. Another one of the same UID is a new device."""
    return json_answer(retire(services.store, who, body.device, body.reason, origin=origin), 201)


@router.get("/flags")
def list_flags(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Flags that stand: on what, which, by whom, since when and why."""
    return paged(flags.standing(services.store, who), None)


@router.post("/flags")
def act(
    body: FlagBody, who: PrincipalDep, services: ServicesDep, origin: OriginDep, key: OnceDep
) -> Response:
    """Set a flag on a node or device, or lift what stands on it; what stands on it then. What is offered
    follows within a second."""

    def note(unit: Unit, name: str) -> None:
        if key is not None:
            key.record(unit, 200, {"id": name}, services.now())

    def once() -> Response:
        return json_answer(
            flags.act(
                services.store, who, body.act, body.on, body.reason, drain=body.drain, origin=origin,
                on_unit=note,
            )
        )  # fmt: skip

    def again(_found: Recorded) -> Response:
        return json_answer(flags.show(services.store, who, body.on))

    return answer_once(services, key, once, again)


@router.get("/departures")
def list_departures(
    on: OnQuery, who: PrincipalDep, services: ServicesDep, at_once: bool = False
) -> dict[str, Any]:
    """Who would leave if it were drained now, in the order in which they would be asked. Changes nothing."""
    return departures(services.store, who, on, at_once=at_once)

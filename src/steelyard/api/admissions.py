"""Admission of new types of resources, step by step, and the records of what real runs verified."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, ConfigDict, Field

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import OriginDep, ServicesDep
from steelyard.api.paging import paged
from steelyard.services import resource_admissions, verifications

router = APIRouter(prefix="/v1", tags=["admission"])
Word = Annotated[str, Field(max_length=63)]


class Start(BaseModel):
    """The type, and why it is to come in."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)
    device_class: Annotated[Word, Field(alias="class")]
    family: Word
    model: Word
    reason: Annotated[str, Field(max_length=500)]


class Why(BaseModel):
    """A written reason."""

    model_config = ConfigDict(extra="forbid")
    reason: Annotated[str, Field(max_length=500)]


@router.get("/admissions")
def list_admissions(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Admissions, the newest first."""
    return paged(resource_admissions.list_all(services.store, who), None)


@router.post("/admissions", status_code=201)
def start(body: Start, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> dict[str, Any]:
    """Begin the admission of a type of resource: it is pending until every step is done."""
    return resource_admissions.start(
        services.store, who, body.device_class, body.family, body.model, body.reason, origin=origin
    )


@router.get("/admissions/{admission_id}")
def show(admission_id: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """One admission with its steps."""
    return resource_admissions.show(services.store, who, admission_id)


@router.post("/admissions/{admission_id}/steps/{step}")
def take_step(
    admission_id: str,
    step: str,
    who: PrincipalDep,
    services: ServicesDep,
    origin: OriginDep,
    body: Annotated[dict[str, Any], Body()],
) -> dict[str, Any]:
    """Take a step: labels {labels}, environment {environment}, monitoring {source}, owner {owner, on_call},
    verification {workload, valid_for}."""
    return resource_admissions.take_step(services.store, who, admission_id, step, body, origin=origin)


@router.post("/admissions/{admission_id}/finish")
def finish(admission_id: str, who: PrincipalDep, services: ServicesDep, origin: OriginDep) -> dict[str, Any]:
    """Admit the type, where every step is done and its verification stands."""
    return resource_admissions.finish(services.store, who, admission_id, origin=origin)


@router.get("/verifications")
def list_verifications(
    who: PrincipalDep, services: ServicesDep, standing: bool = False
) -> dict[str, Any]:
    """Verification records, the newest first; `standing`: only those that hold."""
    return paged(verifications.list_all(services.store, who, standing=standing), None)


@router.get("/verifications/{verification_id}")
def show_verification(verification_id: str, who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """One record: kind, model, environment, software, the workload and the leaf that show it, until when."""
    return verifications.show(services.store, who, verification_id)


@router.post("/verifications/{verification_id}/end")
def end_verification(
    verification_id: str, body: Why, who: PrincipalDep, services: ServicesDep, origin: OriginDep
) -> dict[str, Any]:
    """End a record before its time: what rested on it is pending again."""
    return verifications.end(services.store, who, verification_id, body.reason, origin=origin)

"""The vocabulary of labels, its lint, and when labels changed."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.services import label_history, label_lint

router = APIRouter(prefix="/v1/labels", tags=["labels"])


@router.get("")
def list_labels(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """The labels in force with values, meaning and who may set them; foreign keys that engines report."""
    return label_lint.list_all(services.store, who)


@router.get("/lint")
def lint(who: PrincipalDep, services: ServicesDep) -> dict[str, Any]:
    """Too few, too many, unused and foreign labels, with figures."""
    return label_lint.lint(services.store, who)


@router.get("/history")
def history(
    who: PrincipalDep,
    services: ServicesDep,
    key: Annotated[str | None, Query(max_length=253)] = None,
) -> dict[str, Any]:
    """Changes of the vocabulary with who and why, and the values that stood on nodes, as intervals."""
    return label_history.history(services.store, who, key)

"""Figures for a monitoring system."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from steelyard.api.auth import PrincipalDep
from steelyard.api.context import ServicesDep
from steelyard.model.errors import UnavailableError
from steelyard.services.metrics import CONTENT_TYPE, authorise_metrics

router = APIRouter(tags=["metrics"])


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def metrics(who: PrincipalDep, services: ServicesDep) -> Response:
    """Prometheus' text form, for a token of somebody who may observe the whole installation."""
    authorise_metrics(who)
    if services.meters is None:
        raise UnavailableError("metrics-not-served")
    return Response(services.meters.exposition(), media_type=CONTENT_TYPE)

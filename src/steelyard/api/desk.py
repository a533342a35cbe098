"""The desk where workloads are submitted, as routes are given it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from steelyard.api.context import ServicesDep
from steelyard.model.errors import UnavailableError
from steelyard.services.workloads import Desk


def desk(services: ServicesDep) -> Desk:
    """Raises UnavailableError on a server that was built without one."""
    if services.desk is None:
        raise UnavailableError("not-served-here")
    return services.desk


DeskDep = Annotated[Desk, Depends(desk)]

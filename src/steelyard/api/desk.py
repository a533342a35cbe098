"""The desk where workloads are submitted, as routes are given it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from steelyard.api.context import services_of
from steelyard.model.errors import UnavailableError
from steelyard.services.workloads import Desk


async def desk(request: Request) -> Desk:
    """Raises UnavailableError on a server that was built without one."""
    found = services_of(request).desk
    if found is None:
        raise UnavailableError("not-served-here")
    return found


DeskDep = Annotated[Desk, Depends(desk)]

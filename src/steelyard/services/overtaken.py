"""Units that guarantee something, judged on sums that others may add to at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import TypeVar

from steelyard.model.errors import ConflictError
from steelyard.services.submission import Submitted
from steelyard.store.store import Store

MAX_TRIES = 20
T = TypeVar("T")


class OvertakenError(ConflictError):
    """What was judged is guaranteed no longer as it was then."""


def write_planned(store: Store, planned: Submitted) -> None:
    """Raises OvertakenError where something else was guaranteed meanwhile."""
    try:
        store.writer.write(planned.unit)
    except ConflictError as error:
        if not may_be_overtaken(planned):
            raise
        raise OvertakenError(error.code, **error.params) from error


def may_be_overtaken(planned: object) -> bool:
    """Whether a unit that met a conflict is to be judged again."""
    return isinstance(planned, Submitted) and planned.admitted.guarantee_version is not None


def again_when_overtaken(lock: Lock, act: Callable[[], T]) -> T:
    """What `act` gives. Overtaken, it judges and writes anew; under the lock, so that on this server only
    first tries can be faster."""
    with suppress(OvertakenError):
        return act()
    with lock:
        for _ in range(MAX_TRIES):
            with suppress(OvertakenError):
                return act()
        return act()

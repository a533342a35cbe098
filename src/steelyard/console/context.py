"""What the pages call: one container of services, put together by the wiring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from steelyard.console.kept import Kept
from steelyard.engines.port import Engine
from steelyard.services.attempts import RefusedAttempts
from steelyard.services.census import Census
from steelyard.services.device_past import DevicePast
from steelyard.services.doctor import Check
from steelyard.services.sessions import Logins, Principals
from steelyard.services.usage_series import UsageSeries
from steelyard.services.workloads import Desk
from steelyard.store.store import Store

T = TypeVar("T")
#: How old, in seconds, what is shown as the present inventory may be where reading it takes long.
STALE_S = 5.0


class Lane(Protocol):
    """Where work takes turns. Raises UnavailableError when too many wait."""

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives, when its turn has come."""
        ...


@dataclass(slots=True)
class Console:
    """Services of the pages. `engines` serves logs and the doctor's looks; `extra` what single pages need."""

    store: Store
    principals: Principals
    logins: Logins
    attempts: RefusedAttempts
    desk: Desk
    whole_house: Lane  # this one and the next are shared with the API
    questions: Lane
    engines: Mapping[str, Engine] = field(default_factory=dict)
    signer: Any = None  # the log's signing key
    extra: Mapping[str, Any] = field(default_factory=dict)
    #: When the doctor was last asked, and which of its checks fail.
    health: tuple[float, tuple[Check, ...]] = (-1e9, ())
    usage: Kept[UsageSeries] = field(default_factory=Kept)
    pasts: Kept[DevicePast | None] = field(default_factory=Kept)
    census: Kept[Census] = field(default_factory=lambda: Kept(longest=STALE_S))
    instants: Kept[Mapping[str, Any]] = field(default_factory=Kept)

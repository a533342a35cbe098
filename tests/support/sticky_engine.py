"""An engine on which what ended keeps holding something: only the tests have this."""

from __future__ import annotations

from typing import Any

from steelyard.engines.port import Fenced, ReleaseProbe
from tests.support.faulty_engine import FaultyEngine


class Sticky(FaultyEngine):
    """An engine on which ended attempts keep holding something, until told otherwise."""

    stuck = False
    fencible = False
    free: bool | None = False
    fenced: tuple[str, ...] = ()

    def probe_release(self, attempt_ids: Any) -> tuple[ReleaseProbe, ...]:
        """What is really there, and a process that can't be ended."""
        probes = super().probe_release(attempt_ids)
        if not self.stuck:
            return probes
        checks = (("processes", "remains"),)
        left = ("process 7 (stuck)",) if self.free is False else ()
        numbers = (("processes", 1),)
        return tuple(ReleaseProbe(one.attempt_id, one.at, self.free, checks, left, numbers) for one in probes)

    def fence(self, attempt_ids: Any) -> tuple[Fenced, ...]:
        """Ends it, if it can be ended."""
        self.fenced += tuple(attempt_ids)
        if self.fencible:
            self.stuck = False
        return tuple(Fenced(name, (("processes", 1),)) for name in attempt_ids)

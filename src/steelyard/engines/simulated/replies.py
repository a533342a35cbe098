"""How a simulated cluster's replies suffer: lost after the act, late, stale, doubled, out of order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase

from steelyard.engines.port import EngineUnavailable, Observation
from steelyard.engines.simulated.faults import FaultKind
from steelyard.engines.simulated.suffer import Sufferings


class Replies:
    """Looks at each reply on its way out. `spend` books a fault that struck."""

    def __init__(self, cluster: str) -> None:
        self._cluster = cluster
        self._again: Observation | None = None
        self._held: Observation | None = None
        self._overtaken = False

    def check_reachable(self, sufferings: Sufferings, at: int) -> None:
        """Raises EngineUnavailable while the whole cluster is lost."""
        if sufferings.holding(FaultKind.CLUSTER_LOST, at):
            raise EngineUnavailable("cluster-unreachable", cluster=self._cluster)

    def lose(
        self, sufferings: Sufferings, call: str, names: Iterable[str], at: int, spend: Callable[[str], None]
    ) -> None:
        """Raises EngineUnavailable where the reply to a call that was carried out is to be lost."""
        for suffering in sufferings.holding(FaultKind.LOST_REPLY, at):
            pattern = suffering.match.name
            if call in suffering.calls and (
                pattern is None or any(fnmatchcase(name, pattern) for name in names)
            ):
                spend(suffering.key)
                raise EngineUnavailable("engine-reply-lost", cluster=self._cluster, call=call)

    def seen_until(self, sufferings: Sufferings, at: int) -> int:
        """Up to which time an observation made now sees.

        It never goes back, not even for another observer: whatever was before a suffering began was seen.
        """
        seen = at
        for suffering in sufferings.holding(FaultKind.LATE_REPLY, at):
            seen = min(seen, max(sufferings.begins(suffering), at - suffering.delay))
        for suffering in sufferings.holding(FaultKind.STALE, at):
            seen = min(seen, sufferings.begins(suffering))
        return seen

    def waiting(self) -> Observation | None:
        """An earlier observation that is delivered instead of a new one."""
        if self._again is not None:
            again, self._again = self._again, None
            return again
        if self._held is not None and self._overtaken:
            held, self._held, self._overtaken = self._held, None, False
            return held
        return None

    def deliver(
        self, observation: Observation, sufferings: Sufferings, at: int, spend: Callable[[str], None]
    ) -> Observation:
        """The observation itself, unless a fault holds it back (EngineUnavailable: it comes later)."""
        if self._held is not None:
            self._overtaken = True
            return observation
        for suffering in sufferings.holding(FaultKind.REORDERED, at)[:1]:
            spend(suffering.key)
            self._held = observation
            raise EngineUnavailable("engine-reply-late", cluster=self._cluster, call="observe")
        for suffering in sufferings.holding(FaultKind.DOUBLED, at)[:1]:
            spend(suffering.key)
            self._again = observation
        self.lose(sufferings, "observe", (), at, spend)
        return observation

"""What would be, and what would have been: what-if, start estimates, windows decided again."""

from __future__ import annotations

from steelyard.client.calls import foresight
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Foresight(Requests):
    """What-if, start estimates, policy previews, replays of windows."""

    def what_if(self, changes: list[Json]) -> Json:
        """What the scheduler would decide with these changes, beside what it decides without; nothing is
        changed. Each change is a mapping of one key: submit, limit, documents, add_devices, cordon, uncordon,
        end."""
        return self._ask(foresight.what_if(changes))

    def estimates(self, *, workload: str | None = None, project: str | None = None) -> Json:
        """When what waits will start: {items: [{earliest, latest, why, …}], coverage} (µs UTC; None: not
        known, and why)."""
        return self._ask(foresight.estimates(workload, project))

    def policy_preview(
        self, documents: list[Json], *, since: int | None = None, until: int | None = None
    ) -> Json:
        """The recorded window `[since, until)` (µs UTC) under these documents laid over those that were in
        force, beside the same under what was in force."""
        return self._ask(foresight.policy_preview(documents, since, until))

    def replay_window(
        self,
        since: int | None = None,
        until: int | None = None,
        *,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """Decides the stored cycles of a window again, oldest first, some of them a call: {checked, same,
        purged, first, next_cursor, …}. Call with `next_cursor` until that is None."""
        return self._ask(foresight.replay_window(since, until, cursor, limit))

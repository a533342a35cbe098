"""What is left of workloads: results, and releases that were not proven."""

from __future__ import annotations

from steelyard.client import steps
from steelyard.client.calls import releases
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Releases(Requests):
    """Results, and what an operator does about quarantines."""

    def artifacts(self, workload_id: str) -> list[Json]:
        """What the members of a workload left as results, the newest attempt first, with digests."""
        return self._ask(releases.artifacts(workload_id))

    def releases(self, most: int | None = None, *, closed: bool | None = None) -> list[Json]:
        """Unproven releases, the newest first; `closed`: only open ones, only closed ones, or all."""
        return self._items(releases.releases(closed), most)

    def unproven_release(self, release_id: str) -> Json:
        """One unproven release, by `rl_…` or its attempt's `at_…`."""
        return self._ask(releases.unproven_release(release_id))

    def confirm_release(self, release_id: str, *, force: bool = False, reason: str | None = None) -> Json:
        """Asks for a new probe that decides; with `force` the caller answers for it, with a reason."""
        return self._ask(releases.confirm(release_id, force, reason))

    def fence_release(self, release_id: str, reason: str) -> Json:
        """Asks for what is left to be ended, within the ownership mark."""
        return self._ask(releases.fence(release_id, reason))

    def release_answer(self, release_id: str, *, timeout: float = 60.0) -> Json:
        """Waits until what was asked is answered: the release as it is then. `timeout` in seconds.

        Raises WaitTimeoutError.
        """
        return self._run(steps.release_answer(release_id, timeout, self._clock))

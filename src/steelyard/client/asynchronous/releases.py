"""What is left of workloads: results, and releases that were not proven, awaited."""

from __future__ import annotations

from steelyard.client import steps
from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import releases
from steelyard.client.views import Json


class AsyncReleases(AsyncRequests):
    """Results, and what an operator does about quarantines."""

    async def artifacts(self, workload_id: str) -> list[Json]:
        """What the members of a workload left as results, the newest attempt first, with digests."""
        return await self._ask(releases.artifacts(workload_id))

    async def releases(self, most: int | None = None, *, closed: bool | None = None) -> list[Json]:
        """Unproven releases, the newest first; `closed`: only open ones, only closed ones, or all."""
        return await self._items(releases.releases(closed), most)

    async def unproven_release(self, release_id: str) -> Json:
        """One unproven release, by `rl_…` or its attempt's `at_…`."""
        return await self._ask(releases.unproven_release(release_id))

    async def confirm_release(
        self, release_id: str, *, force: bool = False, reason: str | None = None
    ) -> Json:
        """Asks for a new probe that decides; with `force` the caller answers for it, with a reason."""
        return await self._ask(releases.confirm(release_id, force, reason))

    async def fence_release(self, release_id: str, reason: str) -> Json:
        """Asks for what is left to be ended, within the ownership mark."""
        return await self._ask(releases.fence(release_id, reason))

    async def release_answer(self, release_id: str, *, timeout: float = 60.0) -> Json:
        """Waits until what was asked is answered: the release as it is then. `timeout` in seconds.

        Raises WaitTimeoutError.
        """
        return await self._run(steps.release_answer(release_id, timeout, self._clock))

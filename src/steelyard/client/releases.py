"""What is left of workloads, through the API: results, and releases that were not proven."""

from __future__ import annotations

from typing import cast
from urllib.parse import quote

from steelyard.client.errors import WaitTimeoutError
from steelyard.client.requests import Requests
from steelyard.client.views import Json

_POLL = 0.2


class ReleaseRequests(Requests):
    """Results, and what an operator does about quarantines."""

    def artifacts(self, workload_id: str) -> list[Json]:
        """What the members of a workload left as results, the newest attempt first, with digests."""
        path = f"/v1/workloads/{quote(workload_id, safe='')}/artifacts"
        return cast(list[Json], self._get(path)["items"])

    def releases(self, most: int | None = None, *, closed: bool | None = None) -> list[Json]:
        """Unproven releases, the newest first; `closed`: only open ones, only closed ones, or all."""
        return self._items("/v1/releases", {"closed": closed}, most)

    def unproven_release(self, release_id: str) -> Json:
        """One unproven release, by `rl_…` or its attempt's `at_…`."""
        return cast(Json, self._get(f"/v1/releases/{quote(release_id, safe='')}"))

    def confirm_release(self, release_id: str, *, force: bool = False, reason: str | None = None) -> Json:
        """Asks for a new probe that decides; with `force` the caller answers for it, with a reason."""
        path = f"/v1/releases/{quote(release_id, safe='')}/confirm"
        return cast(Json, self._post(path, {"force": force, "reason": reason}))

    def fence_release(self, release_id: str, reason: str) -> Json:
        """Asks for what is left to be ended, within the ownership mark."""
        path = f"/v1/releases/{quote(release_id, safe='')}/fence"
        return cast(Json, self._post(path, {"reason": reason}))

    def release_answer(self, release_id: str, *, timeout: float = 60.0) -> Json:
        """Waits until what was asked is answered: the release as it is then. `timeout` in seconds.

        Raises WaitTimeoutError.
        """
        deadline = self._clock() + timeout
        while (view := self.unproven_release(release_id))["asked"] is not None:
            if self._clock() >= deadline:
                raise WaitTimeoutError(
                    "wait-timed-out", id=release_id, seconds=int(timeout), phase=view["state"]
                )
            self._sleep(_POLL)
        return view

"""Evidence: use, failures, scheduling cycles, the log, awaited."""

from __future__ import annotations

from typing import Any

from steelyard.client.asynchronous.requests import AsyncRequests
from steelyard.client.calls import evidence
from steelyard.client.views import Json


class AsyncEvidence(AsyncRequests):
    """Use, failures, scheduling cycles and the log."""

    async def failures(
        self,
        start: int | None = None,
        end: int | None = None,
        *,
        project: str | None = None,
        stage: str | None = None,
        group: str | None = None,
        order: str | None = None,
        limit: int | None = None,
    ) -> Json:
        """Failed attempts and refusals by signature, the worst first; `order`: count, lost-time, newest."""
        window = {"from": start, "to": end, "project": project, "stage": stage, "group": group}
        return await self._ask(evidence.failures({**window, "order": order, "limit": limit}))

    async def usage(self, start: int | None = None, end: int | None = None, by: str | None = None) -> Json:
        """Who used what in `[start, end)` (µs UTC), summed by the keys of `by`."""
        return await self._ask(evidence.usage(start, end, by))

    async def review(self, start: int | None = None, end: int | None = None) -> Json:
        """Five questions on `[start, end)` (µs UTC): {answers: {question: {code, params, rows}}}."""
        return await self._ask(evidence.review(start, end))

    async def audit_leaves(
        self, stream: str | None = None, *, after: int | None = None, most: int | None = None
    ) -> Json:
        """Log entries of a stream: {stream, head, items}."""
        return await self._ask(evidence.leaves(stream, after, most))

    async def audit_checkpoint(self) -> Json:
        """The newest signed checkpoint."""
        return await self._ask(evidence.checkpoint())

    async def audit_proof(self, seq: int) -> str:
        """That an entry is in the log, as text."""
        return (await self._ask(evidence.proof(seq))).decode("utf-8", "replace")

    async def audit_consistency(self, start: int, end: int) -> Any:
        """That the log only grew between two sizes."""
        return await self._ask(evidence.consistency(start, end))

    async def audit_checks(self) -> Json:
        """Runs the checks of conservation and integrity: {ok, checks}."""
        return await self._ask(evidence.checks())

    async def audit_bundle(self, start: int | None = None, end: int | None = None) -> bytes:
        """An evidence bundle as a tar file."""
        return await self._ask(evidence.bundle(start, end))

    async def cycles(self, most: int | None = None) -> list[Json]:
        """Scheduling cycles that changed something, the newest first."""
        return await self._items(evidence.cycles(), most)

    async def cycle(self, cycle_id: str) -> Json:
        """One cycle whole."""
        return await self._ask(evidence.cycle(cycle_id))

    async def replay(self, cycle_id: str) -> Json:
        """Decides a stored cycle again: {same, differences}."""
        return await self._ask(evidence.replay(cycle_id))

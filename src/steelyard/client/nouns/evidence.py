"""Evidence: use, failures, scheduling cycles, the log."""

from __future__ import annotations

from typing import Any

from steelyard.client.calls import evidence
from steelyard.client.requests import Requests
from steelyard.client.views import Json


class Evidence(Requests):
    """Use, failures, scheduling cycles and the log."""

    def failures(
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
        return self._ask(evidence.failures({**window, "order": order, "limit": limit}))

    def usage(self, start: int | None = None, end: int | None = None, by: str | None = None) -> Json:
        """Who used what in `[start, end)` (µs UTC), summed by the keys of `by`."""
        return self._ask(evidence.usage(start, end, by))

    def review(self, start: int | None = None, end: int | None = None) -> Json:
        """Five questions on `[start, end)` (µs UTC): {answers: {question: {code, params, rows}}}."""
        return self._ask(evidence.review(start, end))

    def audit_leaves(
        self, stream: str | None = None, *, after: int | None = None, most: int | None = None
    ) -> Json:
        """Log entries of a stream: {stream, head, items}."""
        return self._ask(evidence.leaves(stream, after, most))

    def audit_checkpoint(self) -> Json:
        """The newest signed checkpoint."""
        return self._ask(evidence.checkpoint())

    def audit_proof(self, seq: int) -> str:
        """That an entry is in the log, as text."""
        return (self._ask(evidence.proof(seq))).decode("utf-8", "replace")

    def audit_consistency(self, start: int, end: int) -> Any:
        """That the log only grew between two sizes."""
        return self._ask(evidence.consistency(start, end))

    def audit_checks(self) -> Json:
        """Runs the checks of conservation and integrity: {ok, checks}."""
        return self._ask(evidence.checks())

    def audit_bundle(self, start: int | None = None, end: int | None = None) -> bytes:
        """An evidence bundle as a tar file."""
        return self._ask(evidence.bundle(start, end))

    def cycles(self, most: int | None = None) -> list[Json]:
        """Scheduling cycles that changed something, the newest first."""
        return self._items(evidence.cycles(), most)

    def cycle(self, cycle_id: str) -> Json:
        """One cycle whole."""
        return self._ask(evidence.cycle(cycle_id))

    def replay(self, cycle_id: str) -> Json:
        """Decides a stored cycle again: {same, differences}."""
        return self._ask(evidence.replay(cycle_id))

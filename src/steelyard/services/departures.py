"""In which order what runs leaves a place that is drained, and when a replica of a service may."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.model.lifecycle import Phase
from steelyard.services.live_records import LiveAttempt

DRAINED = "drained"
AT_ONCE = "at-once"


def departure_order(attempt: LiveAttempt) -> tuple[int, int, int]:
    """Lowest priority first, then who needs least time to leave, then the newest."""
    return attempt.priority, attempt.spec.grace, -attempt.attempt_id


def may_leave(attempt: LiveAttempt, group: Iterable[LiveAttempt], guaranteed: int, wanted: int) -> bool:
    """Whether a service stays within its guarantee without this replica; one not ready carries nothing.

    Where less is wanted than guaranteed, what is wanted is kept.
    """
    ready = {one.attempt_id for one in group if _carries(one)}
    if attempt.attempt_id not in ready:
        return True
    return len(ready) - 1 >= min(guaranteed, wanted)


def _carries(attempt: LiveAttempt) -> bool:
    return (
        attempt.phase is Phase.RUNNING
        and attempt.stop_reason is None
        and attempt.cancel_requested_at is None
        and attempt.times.get("ready") is not None
        and not attempt.stands_by
    )

"""What has waited longer than its queue's starvation bound is marked once, with a leaf that says by how much.

What could never start is told so already and is not marked.
"""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.control.context import Context
from steelyard.control.waiting import Waiting
from steelyard.model.lifecycle import Phase
from steelyard.model.policy import QUEUE_TREE
from steelyard.model.reasons import ReasonCode
from steelyard.model.units import SECOND
from steelyard.scheduling.rules import Rules
from steelyard.services.live_records import LiveAttempt

#: How often is looked.
EVERY = 10 * SECOND
#: Marked at once.
MOST = 200
_NEVER = frozenset({
    ReasonCode.NO_QUEUE, ReasonCode.NO_NAMESPACE, ReasonCode.EXCEEDS_MAX_QUOTA, ReasonCode.EXCEEDS_CAPACITY,
    ReasonCode.NO_MATCHING_FLAVOR, ReasonCode.LABEL_MISMATCH, ReasonCode.POOL_NOT_ADMITTING,
})  # fmt: skip


class Starving:
    """Looks now and then."""

    def __init__(self, context: Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._next = 0

    def run(self) -> int:
        """How many were marked."""
        context = self._context
        if context.store.now() < self._next:
            return 0
        self._next = context.store.now() + EVERY
        now = context.now()
        found = [each for _, each in zip(range(MOST), self._found(now), strict=False)]
        unit = context.unit()
        for attempt, bound, waited in found:
            attempt.starving_bound = bound
            carrier = context.move(unit, attempt, Phase.QUEUED, {}, {"starving_bound": bound})
            detail: dict[str, object] = {"waited": waited, "bound": bound, "queue": attempt.queue}
            context.leaf(unit, attempt, carrier, "workload.starving", (), detail, ReasonCode.STARVING.value)
        if found:
            context.commit(unit, now)
        return len(found)

    def _found(self, now: int) -> Iterator[tuple[LiveAttempt, int, int]]:
        state = self._context.state
        rules = Rules(state.policy, state.trees.get(QUEUE_TREE))
        for key, shape in sorted(state.waiting_shapes().items()):
            bound = rules.of(shape.queue).starvation_bound
            for item in state.waiting_since(key, now - bound):
                attempt, since = state.attempts[item.attempt_id], max(item.submitted, item.eligible_at)
                if attempt.starving_bound is None and since <= now - bound and not self._is_hopeless(key):
                    yield attempt, bound, now - since

    def _is_hopeless(self, key: str) -> bool:
        return self._waiting.current(key) in _NEVER

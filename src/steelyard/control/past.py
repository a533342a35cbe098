"""What was used lately: a sum is taken at each instant of a fixed grid, where the policy counts the past."""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.model.policy import QUEUE_TREE
from steelyard.scheduling.history import history_of
from steelyard.services.use_history import body_of, next_sum, started
from steelyard.store import tables as t


class Past:
    """Takes the sums. What was held is read from the store, so that a restart loses nothing of it."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def run(self) -> bool:
        """Takes the newest sum that is due; True when it did."""
        context = self._context
        fairness = context.state.policy.fairness
        if not fairness.half_life:
            return False
        before, now = context.state.history, context.store.now()
        if now - now % fairness.sampling <= before.at:
            return False
        now = context.now()
        at = now - now % fairness.sampling
        with context.store.read() as view:
            own = next_sum(view, before, at, fairness)
            since = started(view, at, now)
        unit = context.unit()
        unit.upsert(t.use_history, ("at",), at=at, body_json=body_of(own))
        context.commit(unit, now)
        context.state.history = history_of(context.state.trees.get(QUEUE_TREE), at, own, since)
        return True

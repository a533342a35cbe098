"""Price lists are made anew from the work that came lately, where nodes are chosen by their value."""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.model.policy import NodeOrder
from steelyard.model.units import MINUTE
from steelyard.services.price_lists import body_of, is_same, prices_of_lately
from steelyard.store import tables as t

#: Between two looks at what came.
EVERY = 5 * MINUTE


class Pricing:
    """Stores a list when it differs from the one in force; decisions only look prices up."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 0

    def run(self) -> bool:
        """Looks at what came, where that is due; True when there are other prices now."""
        context = self._context
        if context.state.policy.nodes is not NodeOrder.NODE_VALUE or context.store.now() < self._next:
            return False
        now = context.now()
        self._next = now + EVERY
        with context.store.read() as view:
            prices = prices_of_lately(view, now)
        if not prices or is_same(prices, context.state.prices):
            return False
        unit = context.unit()
        unit.upsert(t.price_list, ("at",), at=now, body_json=body_of(prices))
        context.commit(unit, now)
        context.state.prices = prices
        return True

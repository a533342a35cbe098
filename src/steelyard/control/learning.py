"""How long work takes is learned from what finished, where places on the timeline are made of it."""

from __future__ import annotations

from dataclasses import replace

from steelyard.control.context import Context
from steelyard.model.units import MINUTE
from steelyard.services.learned import body_of
from steelyard.services.run_times import learn
from steelyard.store import tables as t

#: Between two looks at what finished.
EVERY = 30 * MINUTE


class Learning:
    """Stores what was learned when it has changed; decisions only look it up."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._next = 0

    def run(self) -> bool:
        """Looks at what finished, where that is due; True when something else is known now."""
        context = self._context
        if context.store.now() < self._next:
            return False
        now = context.now()
        self._next = now + EVERY
        with context.store.read() as view:
            found = replace(learn(view, with_models=True), version=now)
        if replace(found, version=0) == replace(context.state.run_times, version=0):
            return False
        unit = context.unit()
        unit.upsert(t.run_times, ("at",), at=now, body_json=body_of(found))
        context.commit(unit, now)
        context.state.run_times = found
        return True

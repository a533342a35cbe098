"""The retention loop: lets go what is older than its declared time, a bounded number at once."""

from __future__ import annotations

import time

from steelyard.control.context import Context
from steelyard.services.retention import Retention, plan_purge

EVERY_SECONDS = 600.0
SOON_SECONDS = 2.0  # while there is more


class Retainer:
    """Purges now and then, under the lease."""

    def __init__(self, context: Context, kept: Retention) -> None:
        self._context = context
        self._kept = kept
        self._at = time.monotonic() + SOON_SECONDS

    def run(self) -> None:
        """Purge if it is time."""
        if time.monotonic() < self._at:
            return
        context = self._context
        unit = context.unit()
        with context.store.read() as view:
            more = plan_purge(view, unit, self._kept, context.store.now())
        if unit.drafts:
            context.store.writer.write(unit)
            context.own.append((unit.first_seq, unit.first_seq + len(unit.drafts)))
        self._at = time.monotonic() + (SOON_SECONDS if more else EVERY_SECONDS)

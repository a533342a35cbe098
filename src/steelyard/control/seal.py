"""The seal loop: a signed checkpoint every so many leaves or seconds, while there is something new."""

from __future__ import annotations

import time
from collections.abc import Callable

from steelyard.store.store import Store

EVERY_LEAVES = 5_000
EVERY_SECONDS = 60.0


class Sealer:
    """Signs the log's size now and then."""

    def __init__(self, store: Store, seal: Callable[[str], None]) -> None:
        self._store = store
        self._seal = seal
        self._size = store.writer.state.size
        self._at = time.monotonic()

    def run(self) -> None:
        """Sign if it is time and the log grew."""
        grown = self._store.writer.state.size - self._size
        if grown <= 0 or (grown < EVERY_LEAVES and time.monotonic() - self._at < EVERY_SECONDS):
            return
        self._seal("interval")
        self._size, self._at = self._store.writer.state.size, time.monotonic()

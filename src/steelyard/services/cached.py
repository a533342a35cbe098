"""Values made from declared objects, kept for as long as their version counters stand still."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from steelyard.store.database import View
from steelyard.store.declared import counters

T = TypeVar("T")


class Cached(Generic[T]):
    """One value a process. The counters are read in the caller's own view, so that the value always
    belongs to what else that view shows; a view of older counters is answered from its own rows."""

    def __init__(self, load: Callable[[View], T], *names: str) -> None:
        self._load = load
        self._names = names
        self._lock = threading.Lock()
        self._kept: tuple[object, tuple[int, ...], T] | None = None

    def get(self, view: View) -> T:
        """The value as of the view."""
        known = counters(view)
        key = tuple(known.get(name, 0) for name in self._names)
        engine = view.engine
        kept = self._kept
        if kept is not None and kept[0] is engine and kept[1] == key:
            return kept[2]
        value = self._load(view)
        with self._lock:
            if self._kept is None or self._kept[0] is not engine or self._kept[1] <= key:
                self._kept = (engine, key, value)
        return value

"""Answers that took long are kept for a short while, so that whoever looks again does not wait again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

T = TypeVar("T")
#: What took less is made anew each time. What took longer is kept for this many times as long, up to a limit.
QUICK_S, TIMES, LONGEST_S = 0.15, 20, 30.0
MOST = 64


class _Turn:
    """Whose turn it is to make an answer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Kept(Generic[T]):
    """By key; a key says everything on which the answer depends, who may see it included."""

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, longest: float = LONGEST_S
    ) -> None:
        """`longest`: seconds that an answer is kept at most."""
        self._clock = clock
        self._longest = longest
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._making: WeakValueDictionary[Hashable, _Turn] = WeakValueDictionary()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer that is kept, else one made now; who asks for the same meanwhile waits for it."""
        with self._lock:
            turn = self._making.setdefault(key, _Turn())
        with turn.lock:
            kept = self._kept(key)
            return self._make(key, make) if kept is None else kept

    def _kept(self, key: Hashable) -> T | None:
        with self._lock:
            until, answer = self._answers.get(key, (0.0, None))
        return answer if self._clock() < until else None

    def _make(self, key: Hashable, make: Callable[[], T]) -> T:
        begun = self._clock()
        made = make()
        ended = self._clock()
        with self._lock:
            self._answers.pop(key, None)
            if ended - begun >= QUICK_S:
                self._answers[key] = (ended + min(self._longest, TIMES * (ended - begun)), made)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return made

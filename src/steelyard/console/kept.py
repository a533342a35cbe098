"""Answers that took long are kept for a short while, so that whoever looks again does not wait again."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

T = TypeVar("T")
#: What took less is made anew each time. What took longer is kept for this many times as long, up to a limit.
QUICK_S, TIMES, LONGEST_S = 0.15, 20, 30.0
MOST = 64


class Kept(Generic[T]):
    """By key; a key says everything on which the answer depends, who may see it included."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The answer that is kept, else one that is made now."""
        begun = self._clock()
        with self._lock:
            until, answer = self._answers.get(key, (begun, None))
        if answer is not None and begun < until:
            return answer
        made = make()
        ended = self._clock()
        took = ended - begun
        with self._lock:
            self._answers.pop(key, None)
            if took >= QUICK_S:
                self._answers[key] = (ended + min(LONGEST_S, TIMES * took), made)
            while len(self._answers) > MOST:
                self._answers.popitem(last=False)
        return made

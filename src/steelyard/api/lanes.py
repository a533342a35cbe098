"""Lanes: what is heavy, or asked for by anybody, is worked on in few threads of its own.

Whoever waits for a lane is a coroutine and holds no thread, so a flood in one lane keeps nobody else waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from steelyard.model.errors import UnavailableError

T = TypeVar("T")


class Lane:
    """`workers` at a time, one more than `waiting` waiters are told `code` (UnavailableError)."""

    def __init__(self, name: str, workers: int, waiting: int, code: str) -> None:
        self.workers = workers
        self.waiting = waiting
        self._code = code
        self._limiter: RunVar[CapacityLimiter] = RunVar(f"lane-{name}")

    async def run(self, work: Callable[[], T]) -> T:
        """What the work gives, when its turn has come."""
        limiter = self._of_this_loop()
        if limiter.statistics().tasks_waiting >= self.waiting:
            raise UnavailableError(self._code)
        return await anyio.to_thread.run_sync(work, limiter=limiter)

    def _of_this_loop(self) -> CapacityLimiter:
        try:
            return self._limiter.get()
        except LookupError:
            made = CapacityLimiter(self.workers)
            self._limiter.set(made)
            return made


#: Questions to the scheduler that decide many cycles: one after another, beside everything else.
QUESTIONS = Lane("questions", workers=1, waiting=20, code="too-many-questions")

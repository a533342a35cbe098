"""What will happen and when: a heap of due times, worked off lazily up to now."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Protocol, TypeVar


class Due(Protocol):
    """Something with a next time. `generation` grows when an earlier entry no longer holds."""

    generation: int


A = TypeVar("A", bound=Due)


class Timeline:
    """Entries (due, order, generation, actor); entries of the same time come in the order they were made."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Due]] = []
        self._order = 0

    def schedule(self, due: int, actor: Due) -> None:
        """The actor acts at `due`, unless its generation changes before."""
        self._order += 1
        heapq.heappush(self._heap, (due, self._order, actor.generation, actor))

    def run(self, until: int, act: Callable[[Due, int], int | None]) -> None:
        """Everything due at or before `until`, in order of time. `act` returns the actor's next due time."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            due, _, generation, actor = heapq.heappop(heap)
            while generation == actor.generation:
                following = act(actor, due)
                if following is None:
                    break
                if following > until or (heap and heap[0][0] <= following):
                    self.schedule(following, actor)
                    break
                due, generation = following, actor.generation

    def next_due(self) -> int | None:
        """When something happens next; None: nothing will."""
        heap = self._heap
        while heap and heap[0][2] != heap[0][3].generation:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

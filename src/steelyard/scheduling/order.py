"""Who is looked at first: what is guaranteed, then higher priority, then first come, over all queues and
shapes. A guarantee lies within its queue's nominal quota, so that it takes nothing that is somebody else's.

A head that does not fit blocks its own shape (an equal one can't fit either), never another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from operator import attrgetter

from steelyard.model.workloads import Shape
from steelyard.scheduling.views import PendingItem, ShapeGroup

Key = tuple[bool, int, int, int, int]
_came = attrgetter("submitted", "workload_id", "attempt_id")


def _first_come(item: PendingItem) -> tuple[bool, int, int, int]:
    """Within a shape the priority is the same."""
    return (not item.guaranteed, *_came(item))


def order_key(shape: Shape, item: PendingItem) -> Key:
    """Smaller is first: guaranteed, priority descending, then first submit time, then id."""
    return (not item.guaranteed, -shape.priority, item.submitted, item.workload_id, item.attempt_id)


class Waiting:
    """The heads of all shapes, merged in order."""

    def __init__(self, groups: Iterable[ShapeGroup], held: Iterable[int], now: int) -> None:
        """`held` are attempts that have a place kept for them; they don't wait here."""
        self.shapes: dict[str, Shape] = {}
        self.later: list[tuple[Shape, PendingItem]] = []  # not eligible yet
        self.unseen: set[str] = set()  # shapes that have more waiting than heads
        self._queues: dict[str, list[PendingItem]] = {}
        skip = frozenset(held)
        for group in groups:
            key = group.shape.key
            self.shapes[key] = group.shape
            if group.count > len(group.heads):
                self.unseen.add(key)
            heads = [item for item in group.heads if item.attempt_id not in skip]
            late = [item for item in heads if item.not_before > now or item.eligible_at > now]
            if late:
                self.later += [(group.shape, item) for item in late]
                heads = [item for item in heads if item.not_before <= now and item.eligible_at <= now]
            if heads:
                self._queues[key] = self._queues.get(key, []) + heads
        self._heap: list[tuple[Key, str]] = []
        for key, queue in self._queues.items():
            queue.sort(key=_first_come, reverse=True)
            self._heap.append((order_key(self.shapes[key], queue[-1]), key))
        heapq.heapify(self._heap)

    def pop(self) -> tuple[Shape, PendingItem] | None:
        """The next attempt to look at. Call `again` when others of its shape may follow."""
        if not self._heap:
            return None
        _, key = heapq.heappop(self._heap)
        return self.shapes[key], self._queues[key].pop()

    def again(self, shape: Shape) -> None:
        """Lets the next of the shape follow in its turn."""
        queue = self._queues[shape.key]
        if queue:
            heapq.heappush(self._heap, (order_key(shape, queue[-1]), shape.key))

    @property
    def empty(self) -> bool:
        """True when nobody is left to look at."""
        return not self._heap

    def rest(self) -> list[str]:
        """Keys of the shapes not looked at in full, in order."""
        return [key for _, key in sorted(self._heap)]

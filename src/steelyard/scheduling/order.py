"""Who is looked at first: higher priority, then first come, over all queues and shapes.

A head that does not fit blocks its own shape (an equal one can't fit either), never another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from steelyard.model.workloads import Shape
from steelyard.scheduling.views import PendingItem, ShapeGroup

Key = tuple[int, int, int, int]


def order_key(shape: Shape, item: PendingItem) -> Key:
    """Smaller is first: priority descending, then first submit time, then id."""
    return (-shape.priority, item.submitted, item.workload_id, item.attempt_id)


class Waiting:
    """The heads of all shapes, merged in order."""

    def __init__(self, groups: Iterable[ShapeGroup], held: Iterable[int], now: int) -> None:
        """`held` are attempts that have a place kept for them; they don't wait here."""
        self.now = now
        self.shapes: dict[str, Shape] = {}
        self.later: list[tuple[Shape, PendingItem]] = []  # not eligible yet
        self.unseen: set[str] = set()  # shapes that have more waiting than heads
        self._queues: dict[str, list[tuple[Key, PendingItem]]] = {}
        self._heap: list[tuple[Key, str]] = []
        skip = frozenset(held)
        for group in groups:
            self.shapes[group.shape.key] = group.shape
            if group.count > len(group.heads):
                self.unseen.add(group.shape.key)
            for item in group.heads:
                if item.attempt_id not in skip:
                    self._append(group.shape, item)
        for queue in self._queues.values():
            queue.sort(key=lambda entry: entry[0], reverse=True)
        self._heap = [(queue[-1][0], key) for key, queue in self._queues.items()]
        heapq.heapify(self._heap)

    def _append(self, shape: Shape, item: PendingItem) -> None:
        if max(item.not_before, item.eligible_at) > self.now:
            self.later.append((shape, item))
        else:
            self._queues.setdefault(shape.key, []).append((order_key(shape, item), item))

    def pop(self) -> tuple[Shape, PendingItem] | None:
        """The next attempt to look at. Call `again` when others of its shape may follow."""
        if not self._heap:
            return None
        _, key = heapq.heappop(self._heap)
        return self.shapes[key], self._queues[key].pop()[1]

    def again(self, shape: Shape) -> None:
        """Lets the next of the shape follow in its turn."""
        queue = self._queues[shape.key]
        if queue:
            heapq.heappush(self._heap, (queue[-1][0], shape.key))

    @property
    def empty(self) -> bool:
        """True when nobody is left to look at."""
        return not self._heap

    def rest(self) -> list[str]:
        """Keys of the shapes not looked at in full, in order."""
        return [key for _, key in sorted(self._heap)]

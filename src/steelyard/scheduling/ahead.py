"""Who is looked at before an attempt in its queue, and by which factor. Made of the order's own terms."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.model.policy import Policy
from steelyard.model.workloads import Shape
from steelyard.scheduling.factors import Factor, compare, decides, turns_of
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.turns import Key, Turns
from steelyard.scheduling.views import PendingItem


@dataclass(frozen=True, slots=True)
class Earlier:
    """An attempt that is looked at earlier, and what puts it first."""

    shape: Shape
    item: PendingItem
    factor: Factor | None


@dataclass(frozen=True, slots=True)
class Ahead:
    """`count` of its queue are looked at earlier; None where the snapshot does not have all of them. `first`:
    the first of them, in order."""

    count: int | None
    first: tuple[Earlier, ...]


def ahead(
    snapshot: Snapshot, policy: Policy, now: int, shape: Shape, item: PendingItem, most: int = 10
) -> Ahead:
    """What is before an attempt in its queue. Others that have a place kept for them do not wait."""
    turns = turns_of(snapshot, policy, now)
    groups = [group for group in snapshot.pending if group.shape.queue == shape.queue]
    whole = all(group.count == len(group.heads) for group in groups)
    mine = turns.key(shape, item)
    waits = ((group.shape, head) for group in groups for head in group.heads)
    earlier = list(_earlier(turns, waits, mine, snapshot.holds.keys() | {item.attempt_id}))
    first = heapq.nsmallest(most, earlier, key=lambda found: found[0])
    told = [
        Earlier(other, head, decides(compare(turns, (other, head), (shape, item))))
        for _, other, head in first
    ]
    return Ahead(len(earlier) if whole else None, tuple(told))


def line(snapshot: Snapshot, policy: Policy, now: int, queue: str, most: int) -> tuple[Earlier, ...]:
    """The first that wait in a queue, in order, each with what puts it before the next one; none for the last
    that is there."""
    turns = turns_of(snapshot, policy, now)
    waits = (
        (turns.key(group.shape, head), group.shape, head)
        for group in snapshot.pending
        if group.shape.queue == queue
        for head in group.heads
        if head.attempt_id not in snapshot.holds
    )
    first = heapq.nsmallest(most + 1, waits, key=lambda found: found[0])
    following = [*first[1:], None][: len(first)]
    told = [
        Earlier(shape, item, after and decides(compare(turns, (shape, item), after[1:])))
        for (_, shape, item), after in zip(first, following, strict=True)
    ]
    return tuple(told[:most])


def _earlier(
    turns: Turns, waits: Iterable[tuple[Shape, PendingItem]], mine: Key, passed: Iterable[int]
) -> Iterable[tuple[Key, Shape, PendingItem]]:
    passed_over = frozenset(passed)
    for shape, head in waits:
        key = turns.key(shape, head)
        if key < mine and head.attempt_id not in passed_over:
            yield key, shape, head

"""The part of a large waiting line that one workload's fate hangs on.

Where many shapes wait, most of them could not start in the next cycle: the loop has tried them. For one
workload's explanation those are kept that come first in its own queue, which may bar or precede it, and
those that come first of all, for whom places may be kept.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from steelyard.model.workloads import Shape
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem, ShapeGroup

#: So many shapes are looked at whole.
FEW = 24
#: Of more, the first of the workload's own queue and the first of the others.
OWN, OTHERS = 8, 8


def near(
    snapshot: Snapshot, shape: Shape, now: int, last: PendingItem | None = None
) -> tuple[Snapshot, bool]:
    """(the snapshot with what is near, whether something was left out). The shape's own group stays, up to
    the `last` of it; of the others, which the loop has tried, none looks for victims again."""
    groups = snapshot.pending
    if len(groups) <= FEW:
        return snapshot, False
    own = [group for group in groups if group.shape.queue == shape.queue and group.shape.key != shape.key]
    others = [group for group in groups if group.shape.queue != shape.queue]
    chosen = {group.shape.key for group in heapq.nsmallest(OWN, own, key=_first)}
    chosen |= {group.shape.key for group in heapq.nsmallest(OTHERS, others, key=_first)}
    chosen.add(shape.key)
    looked = {**snapshot.last_looked, **dict.fromkeys(chosen - {shape.key}, now)}
    kept = tuple(
        _up_to(group, last) if group.shape.key == shape.key else group
        for group in groups
        if group.shape.key in chosen
    )
    return replace(snapshot, pending=kept, last_looked=looked), True


def _up_to(group: ShapeGroup, last: PendingItem | None) -> ShapeGroup:
    """What comes after somebody of the same shape does not change what becomes of it."""
    if last is None or not group.in_turn or last not in group.heads:
        return group
    return replace(group, heads=group.heads[: group.heads.index(last) + 1])


def _first(group: ShapeGroup) -> tuple[bool, int, int, int]:
    """By what is common to every order: guaranteed, priority, time."""
    if group.in_turn and group.heads:
        return (True, -group.shape.priority, group.heads[0].submitted, group.heads[0].workload_id)
    head: PendingItem | None = min(
        group.heads, key=lambda item: (not item.guaranteed, item.submitted, item.workload_id), default=None
    )
    if head is None:
        return (True, -group.shape.priority, 0, 0)
    return (not head.guaranteed, -group.shape.priority, head.submitted, head.workload_id)

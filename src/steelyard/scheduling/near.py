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
from steelyard.scheduling.views import ShapeGroup

#: So many shapes are looked at whole.
FEW = 24
#: Of more, the first of the workload's own queue and the first of the others.
OWN, OTHERS = 8, 8


def near(snapshot: Snapshot, shape: Shape, now: int) -> tuple[Snapshot, bool]:
    """(the snapshot with what is near, whether something was left out). The shape's own group stays; of the
    others, which the loop has tried, none looks for victims again."""
    groups = snapshot.pending
    if len(groups) <= FEW:
        return snapshot, False
    own = [group for group in groups if group.shape.queue == shape.queue and group.shape.key != shape.key]
    others = [group for group in groups if group.shape.queue != shape.queue]
    chosen = {group.shape.key for group in heapq.nsmallest(OWN, own, key=_first)}
    chosen |= {group.shape.key for group in heapq.nsmallest(OTHERS, others, key=_first)}
    chosen.add(shape.key)
    looked = {**snapshot.last_looked, **dict.fromkeys(chosen - {shape.key}, now)}
    kept = tuple(group for group in groups if group.shape.key in chosen)
    return replace(snapshot, pending=kept, last_looked=looked), True


def _first(group: ShapeGroup) -> tuple[bool, int, int, int]:
    """By what is common to every order: guaranteed, priority, time."""
    head = group.first
    if head is None:
        return (True, -group.shape.priority, 0, 0)
    return (not head.guaranteed, -group.shape.priority, head.submitted, head.workload_id)

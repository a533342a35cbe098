"""Which of equals goes first in a queue, where it is not simply who came first.

ShortestFirst: the one with the least still to do, its remaining time × what it asks for (shortest remaining
service first). What has no time limit comes after all that have one.

LeastServed, for work of which nobody knows how long it takes: the one on the lowest level of what earlier
attempts of it were given, time × what it asks for (discretised least attained service, after Tiresias).
The first level ends at four device-hours, each next one at sixteen times that of the one before; within a
level first come, first served, so that work of like size does not take turns.
"""

from __future__ import annotations

from steelyard.model.policy import Precedence
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.units import HOUR
from steelyard.model.workloads import Shape
from steelyard.scheduling.views import PendingItem

#: Where the first level ends, in µs × milli-devices, and how much further each next one goes.
FIRST_LEVEL = 4 * HOUR * 1000
FACTOR = 16
#: More than any time limit (366 days) of any number of devices.
UNKNOWN = 2**120


def asked(shape: Shape) -> int:
    """What all members ask for of the shape's accelerators, else of processors, else of anything."""
    totals = shape.totals()
    accelerated = sum(amount for cls, amount in totals.items() if cls in ACCELERATORS)
    return accelerated or totals.get(DeviceClass.CPU, 0) or sum(totals.values())


def size(precedence: Precedence, shape: Shape, item: PendingItem) -> int:
    """Smaller goes first; the same for all where the order is that of coming."""
    if precedence is Precedence.SHORTEST_FIRST:
        return remaining(shape, item)
    if precedence is Precedence.LEAST_SERVED:
        return level(asked(shape) * item.served)
    return 0


def remaining(shape: Shape, item: PendingItem) -> int:
    """What is still to be done at most, in µs × milli-units."""
    if shape.time_limit is None:
        return UNKNOWN
    return max(0, shape.time_limit - item.served) * asked(shape)


def level(service: int) -> int:
    """The level of so much service, from 0."""
    found, end = 0, FIRST_LEVEL
    while service >= end:
        found, end = found + 1, end * FACTOR
    return found

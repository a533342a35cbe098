"""How much may be stopped for how little: a hard bound on what one attempt's victims give up.

What they have of the class that the attempt asks for first may come to `Policy.max_evicted` times what it
asks for, or to `ALWAYS`, which one node's work seldom exceeds. Whoever would need more stops nobody, and
waits. What a service is guaranteed is not bounded by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.barriers import WAKE_LIMIT, WAKE_RELEASED
from steelyard.scheduling.placement import ShapePlan, allocations_of
from steelyard.scheduling.views import PendingItem, RunningView

#: May be stopped for whoever may stop anybody: eight devices (or cores).
ALWAYS = 8 * WHOLE_DEVICE


@dataclass(frozen=True, slots=True)
class Excess:
    """A set of victims that would give up too much."""

    evicted: int
    requested: int
    most: int


def excess_of(
    plan: ShapePlan, item: PendingItem, stopped: Iterable[RunningView], times: int
) -> Excess | None:
    """What is too much, where these would be stopped for the attempt; None where they may. `times` in
    thousandths."""
    if item.guaranteed:
        return None
    primary = plan.lead.need.primary
    evicted = sum(
        allocation.quantity
        for view in stopped
        for _, allocation in allocations_of(view.members)
        if allocation.device_class is primary
    )
    requested = plan.amounts.get(primary, 0)
    most = max(ALWAYS, times * requested // 1000)
    return Excess(evicted, requested, most) if evicted > most else None


def excess_reason(plan: ShapePlan, excess: Excess) -> Reason:
    """It could start if others were stopped, and they have too much for that."""
    return Reason(
        ReasonCode.EVICTS_TOO_MUCH, "preemption", resource=plan.lead.need.primary.value,
        requested=excess.requested, wakes_on=(WAKE_RELEASED, WAKE_LIMIT),
        params={"evicted": excess.evicted, "most": excess.most},
    )

"""Why what nobody holds is idle: the meter's causes by class, after each cycle."""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.control.waiting import Waiting
from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import DeviceClass

SCHEDULABLE, BLOCKED, FRAGMENTED = "idle.schedulable", "idle.blocked", "idle.fragmented"
#: Reasons that a rule is in the way of, not the shape of what is free.
_RULES = frozenset(
    {
        ReasonCode.WAITING_FOR_QUOTA,
        ReasonCode.OVER_LIMIT,
        ReasonCode.EXCEEDS_MAX_QUOTA,
        ReasonCode.QUEUE_STOPPED,
        ReasonCode.BACKOFF,
        ReasonCode.HELD,
    }
)


class Causes:
    """Sets the idle cause of each class."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cause: dict[DeviceClass, str] = {}

    def run(self, waiting: Waiting) -> None:
        """Book what changed; nothing is written when nothing did."""
        context = self._context
        wanted = self._wanted(waiting)
        changed = [cls for cls in DeviceClass if self._cause.get(cls) != wanted.get(cls, SCHEDULABLE)]
        if not changed:
            return
        now = context.now()
        for device_class in changed:
            cause = self._cause[device_class] = wanted.get(device_class, SCHEDULABLE)
            devices = context.state.devices.values()
            ids = [d.id for d in devices if d.device_class is device_class and d.id in context.meter]
            context.meter.set_idle_cause(ids, cause, now)
        context.commit(context.unit(), now)

    def _wanted(self, waiting: Waiting) -> dict[DeviceClass, str]:
        causes: dict[DeviceClass, str] = {}
        for key, shape in self._context.state.waiting_shapes().items():
            reasons = waiting.current(key)
            if not reasons:
                continue
            cause = BLOCKED if reasons[0].code in _RULES else FRAGMENTED
            for device_class in shape.totals():
                if causes.get(device_class) != FRAGMENTED:
                    causes[device_class] = cause
        return causes

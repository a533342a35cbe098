"""Why what nobody holds is idle: the meter's causes by flavor, with each cycle.

A flavor is idle for a reason only if somebody who waits could use it: work that waits for simulated GPUs
does not make this machine's CPU idle for want of quota.
"""

from __future__ import annotations

from steelyard.control.context import Context
from steelyard.control.waiting import Waiting
from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import ACCELERATORS
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import FlavorView

SCHEDULABLE, BLOCKED, FRAGMENTED = "idle.schedulable", "idle.blocked", "idle.fragmented"
#: Reasons where a rule is in the way, not the shape of what is free.
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
    """Sets the idle cause of each flavor's devices; nothing is written when nothing changed."""

    def __init__(self, context: Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._cause: dict[str, str] = {}
        self._inventory: int | None = None  # of which state of it devices know their causes

    def run(self, now: int) -> None:
        """Tell the meter what changed; the caller commits."""
        context = self._context
        flavors = context.state.flavors()
        if context.state.inventory_changes != self._inventory:
            self._inventory, self._cause = context.state.inventory_changes, {}  # new devices know none yet
        wanted = self._wanted(list(flavors.values()))
        changed = {name for name in flavors if self._cause.get(name) != wanted.get(name, SCHEDULABLE)}
        if not changed:
            return
        ids: dict[str, list[int]] = {name: [] for name in changed}
        for device in context.state.devices.values():
            if device.flavor in changed and device.id in context.meter:
                ids[device.flavor].append(device.id)
        for name in sorted(changed):
            cause = self._cause[name] = wanted.get(name, SCHEDULABLE)
            context.meter.set_idle_cause(ids[name], cause, now)

    def _wanted(self, flavors: list[FlavorView]) -> dict[str, str]:
        causes: dict[str, str] = {}
        for key, shape in self._context.state.waiting_shapes().items():
            code = self._waiting.current(key)
            if code is None:
                continue
            cause = BLOCKED if code in _RULES else FRAGMENTED
            for name in usable(shape, flavors):
                if causes.get(name) != FRAGMENTED:
                    causes[name] = cause
        return causes


def usable(shape: Shape, flavors: list[FlavorView]) -> set[str]:
    """Flavors that could serve the shape: its accelerators', and CPU and memory of the same pools."""
    names: set[str] = set()
    for _, _, request in shape.roles:
        asked = {device_class for device_class, amount in request.amounts if amount}
        accelerators = [f for f in flavors if f.device_class in asked and f.device_class in ACCELERATORS]
        chosen = {f.name for f in accelerators if _allowed(f, request)}
        pools = {f.pool for f in accelerators if f.name in chosen}
        bound = bool(asked & set(ACCELERATORS))
        names |= chosen
        for flavor in flavors:
            if flavor.device_class in ACCELERATORS or flavor.device_class not in asked:
                continue
            in_place = not request.clusters or flavor.cluster in request.clusters
            if in_place and (flavor.pool in pools or not bound):
                names.add(flavor.name)
    return names


def _allowed(flavor: FlavorView, request: MemberRequest) -> bool:
    return (
        (not request.flavors or flavor.name in request.flavors)
        and (not request.models or flavor.model in request.models)
        and (not request.clusters or flavor.cluster in request.clusters)
    )

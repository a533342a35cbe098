"""Devices that turn bad under work: said on the attempts that hold them, so that their end is explained.

What runs is not ended for it, unless its cluster says `onDeviceFailure: stop`: a program may well finish on
a card that its tool complains of. If it fails, the verdict points to what was said of the device; its next
attempt goes elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection

from steelyard.control.commands import stop_attempt
from steelyard.control.context import Context
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.services.conditions import sign_view
from steelyard.services.live_records import LiveDevice
from steelyard.services.verdicts import DEVICE_UNHEALTHY
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_HOLDS = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING)
MOST_SIGNS = 4


def note_failing(context: Context, unit: Unit, devices: Collection[LiveDevice], now: int) -> None:
    """One leaf for each attempt that holds any of them; where its cluster declares so, it is asked to end."""
    if not devices:
        return
    bad = {device.id: device for device in devices}
    for attempt in context.state.in_phase(*_HOLDS):
        found: dict[int, LiveDevice] = {}
        for member in attempt.members:
            for allocation in member.allocations:
                if allocation.device_id in bad:
                    found[allocation.device_id] = bad[allocation.device_id]
        if found:
            detail: Row = {"devices": [_said(device) for device in found.values()]}
            if attempt.phase is not Phase.STOPPING and attempt.clusters & context.state.stops_on_failure:
                stop_attempt(context, unit, attempt, now, DEVICE_UNHEALTHY, "workload.device", detail)
                continue
            carrier = context.move(unit, attempt, attempt.phase, {})
            reason = next(iter(found.values())).condition.health.value
            context.leaf(unit, attempt, carrier, "workload.device", (), detail, reason=f"device-{reason}")


def _said(device: LiveDevice) -> Row:
    return {
        "device": render("device", device.id),
        "uid": device.uid,
        "health": device.condition.health.value,
        "signs": [sign_view(sign) for sign in device.condition.signs[:MOST_SIGNS]],
    }

"""The meter: what every device is doing since when, in memory, and the segments that its changes close.

Of each device, at each instant: capacity = held + the unheld parts, exactly. Unheld is stored by state and
reason and never subtracted afterwards, so that the sum is a check (metering.md 3c). One control loop drives
it; `flush` hands over the rows that go into the transaction of the change itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from steelyard.evidence.meter_state import (
    AVAILABLE,
    IDLE_CAUSES,
    DeviceState,
    MeterDevice,
    MeterError,
    Part,
    Row,
)
from steelyard.model.resources import Availability, DeviceClass


class MeterWrites(NamedTuple):
    """Closed segments (rows to insert), changed open states (rows to upsert by device_id), and the devices
    that are metered no more (rows of device_meter to delete)."""

    capacity_rows: list[Row]
    unheld_rows: list[Row]
    meter_rows: list[Row]
    retired: list[int]


class Meter:
    """All devices. Not thread-safe: one owner. Times must not go back for a device (see `latest`).

    Changes at one instant collapse: no segment is empty. At one instant give back before taking anew, for
    held is checked at every call. Every method raises MeterError for what can't be true, KeyError for a
    device that is not metered.
    """

    def __init__(self) -> None:
        self._devices: dict[int, DeviceState] = {}
        self._dirty: dict[int, DeviceState] = {}
        self._capacity_rows: list[Row] = []
        self._unheld_rows: list[Row] = []
        self._retired: list[int] = []
        self.latest = 0  # the newest instant ever recorded; a clock that steps back is to be held here

    def __contains__(self, device_id: int) -> bool:
        return device_id in self._devices

    def __len__(self) -> int:
        return len(self._devices)

    def held(self, device_id: int) -> int:
        """What is held of a device now."""
        return self._devices[device_id].held

    def quarantined(self, device_id: int, holder: str) -> int:
        """What an attempt keeps of a device in quarantine now."""
        return self._devices[device_id].quarantined.get(holder, 0)

    def parts(self, device_id: int) -> dict[Part, int]:
        """The unheld quantities of a device now, by (state, reason)."""
        return self._devices[device_id].wanted()

    # --- changes -----------------------------------------------------------------------------------
    def register(
        self,
        device: MeterDevice,
        capacity: int,
        now: int,
        *,
        pool: str | None = None,
        availability: str = AVAILABLE,
        reason: str | None = None,
    ) -> None:
        """Begin to meter a device."""
        if device.id in self._devices:
            raise MeterError(f"device {device.id} is metered already")
        if capacity < 0:
            raise MeterError(f"device {device.id}: capacity {capacity}")
        state = self._devices[device.id] = DeviceState(device, capacity, pool, now)
        self._mark(state, now)
        self.set_availability(device.id, availability, reason, now)

    def hold(self, device_id: int, quantity: int, now: int) -> None:
        """A quantity is taken by a member."""
        state = self._devices[device_id]
        if state.at != now or not state.pending:
            self._mark(state, now)
        held = state.held + quantity
        kept_back = 0 if state.plain else sum(state.quarantined.values())
        if quantity <= 0 or held + kept_back > state.capacity:
            raise MeterError(
                f"device {device_id}: {quantity} on top of {state.held} held and {kept_back} "
                f"quarantined, of {state.capacity}"
            )
        state.held = held

    def release(self, device_id: int, quantity: int, now: int) -> None:
        """A quantity is given back."""
        state = self._devices[device_id]
        if state.at != now or not state.pending:
            self._mark(state, now)
        if quantity <= 0 or quantity > state.held:
            raise MeterError(f"device {device_id}: {quantity} given back of {state.held} held")
        state.held -= quantity

    def set_availability(
        self, device_id: int, availability: str, reason: str | None, now: int, capacity: int | None = None
    ) -> None:
        """What the engine says of it. What is held stays held; the rest follows the availability."""
        state = self._devices[device_id]
        availability = Availability(availability).value
        if (availability == AVAILABLE) != (reason is None):
            raise MeterError(f"device {device_id}: {availability} with reason {reason}")
        size = state.capacity if capacity is None else capacity
        if (state.availability, state.reason, state.capacity) == (availability, reason, size):
            return
        if size < state.held + sum(state.quarantined.values()):
            raise MeterError(f"device {device_id}: capacity {size} below what is held ({state.held})")
        self._mark(state, now)
        state.availability, state.reason, state.capacity = availability, reason, size
        state.refresh()

    def capacity(self, device_id: int) -> int:
        """What there is of a device now."""
        return self._devices[device_id].capacity

    def occupy(self, device_id: int, quantity: int, now: int) -> None:
        """So much of it is used by somebody whom no workload owns (0: nothing); it is not offered. What is
        held goes before: an occupation is measured and may tell of more than is left."""
        state = self._devices[device_id]
        if quantity < 0:
            raise MeterError(f"device {device_id}: {quantity} occupied")
        if state.occupied != quantity:
            self._mark(state, now)
            state.occupied = quantity
            state.refresh()

    def set_pool(self, device_id: int, pool: str | None, now: int) -> None:
        """The device moved to another pool."""
        state = self._devices[device_id]
        if state.pool != pool:
            self._mark(state, now)
            state.pool = pool

    def reserve(self, device_id: int, quantity: int, holder: str, now: int) -> None:
        """Keep a quantity for an attempt (`at_…`). What others still hold of it counts as soon as it is
        given back."""
        state = self._devices[device_id]
        if quantity <= 0:
            raise MeterError(f"device {device_id}: {quantity} reserved")
        self._mark(state, now)
        state.claims[holder] = state.claims.get(holder, 0) + quantity
        state.refresh()

    def unreserve(self, device_id: int, holder: str, now: int) -> None:
        """The attempt needs nothing kept on this device any more; nothing happens if it had nothing."""
        state = self._devices[device_id]
        if holder in state.claims:
            self._mark(state, now)
            del state.claims[holder]
            state.refresh()

    def quarantine(self, device_id: int, quantity: int, holder: str, now: int) -> None:
        """Call after `release`: ended, but the release was not proven; not offered to anybody."""
        state = self._devices[device_id]
        total = quantity + sum(state.quarantined.values())
        if quantity <= 0 or state.held + total > state.capacity:
            raise MeterError(f"device {device_id}: {total} quarantined beside {state.held} held")
        self._mark(state, now)
        state.quarantined[holder] = state.quarantined.get(holder, 0) + quantity
        state.refresh()

    def unquarantine(self, device_id: int, holder: str, now: int) -> None:
        """What the attempt left behind is provably free."""
        state = self._devices[device_id]
        if holder in state.quarantined:
            self._mark(state, now)
            del state.quarantined[holder]
            state.refresh()

    def set_idle_cause(self, device_ids: Iterable[int], cause: str, now: int, reason: str = "") -> None:
        """Why what is free of these devices is free; `reason` names the rule of `idle.blocked`."""
        if cause not in IDLE_CAUSES:
            raise MeterError(f"no idle cause: {cause}")
        idle = (cause, reason)
        for device_id in device_ids:
            state = self._devices[device_id]
            if state.idle != idle:
                self._mark(state, now)
                state.idle = idle

    def retire(self, device_id: int, now: int) -> None:
        """The device is gone for good. Nothing of it may be held."""
        state = self._devices[device_id]
        if state.held:
            raise MeterError(f"device {device_id}: retired while {state.held} is held")
        self._mark(state, now)
        self._settle(state)
        self._close_capacity(state, now)
        for part, (since, quantity) in state.parts.items():
            if since < now:
                self._unheld_rows.append(state.unheld_row(part, since, now, quantity))
        del self._devices[device_id], self._dirty[device_id]
        self._retired.append(device_id)

    # --- segments ----------------------------------------------------------------------------------
    def flush(self, now: int) -> MeterWrites:
        """What the changes since the last flush closed and left open. Nothing changed: four empty lists."""
        self.latest = max(self.latest, now)
        meter_rows = []
        for state in self._dirty.values():
            if state.pending:
                self._settle(state)
            state.version += 1
            meter_rows.append(state.meter_row())
        writes = MeterWrites(self._capacity_rows, self._unheld_rows, meter_rows, self._retired)
        self._dirty, self._capacity_rows, self._unheld_rows, self._retired = {}, [], [], []
        return writes

    def open_segments(self, until: int) -> tuple[list[Row], list[Row]]:
        """(capacity rows, unheld rows) that are open, cut at `until`; those that begin later are left out.

        Nothing may be pending: flush first."""
        capacity_rows, unheld_rows = [], []
        for state in self._devices.values():
            if state.opened < until:
                capacity_rows.append(state.capacity_row(until))
            for part, (since, quantity) in state.parts.items():
                if since < until:
                    unheld_rows.append(state.unheld_row(part, since, until, quantity))
        return capacity_rows, unheld_rows

    def load(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Restore from rows of device_meter joined with cluster, device_class, simulated of their device."""
        for row in rows:
            kept = msgspec.json.decode(row["unheld_json"])
            device = MeterDevice(
                row["device_id"], row["cluster"], DeviceClass(row["device_class"]), bool(row["simulated"])
            )
            state = DeviceState(device, kept["capacity"], kept["pool"], kept["at"])
            state.availability, state.reason = kept["availability"], kept["reason"]
            state.idle = (kept["idle"][0], kept["idle"][1])
            state.parts = {(s, reason): (since, quantity) for s, reason, since, quantity in kept["parts"]}
            state.claims, state.quarantined = kept["claims"], kept["quarantined"]
            state.occupied = kept.get("occupied", 0)
            state.held, state.opened, state.version = row["held"], row["capacity_since"], row["version"]
            state.recorded = state.facts()
            state.refresh()
            self._devices[device.id] = state
            self.latest = max(self.latest, state.at)

    def _mark(self, state: DeviceState, now: int) -> None:
        """Before a change at `now`: what changed at an earlier instant is settled first."""
        if now != state.at:
            if now < state.at:
                raise MeterError(f"device {state.id}: a change at {now} after one at {state.at}")
            if state.pending:
                self._settle(state)
            state.at = now
            if now > self.latest:
                self.latest = now
        state.pending = True
        self._dirty[state.id] = state

    def _settle(self, state: DeviceState) -> None:
        """Close the parts that changed at `state.at`, open what they became."""
        state.pending = False
        at, parts, wanted = state.at, state.parts, state.wanted()
        for part in tuple(parts):
            since, quantity = parts[part]
            if wanted.get(part) != quantity:
                if since < at:
                    self._unheld_rows.append(state.unheld_row(part, since, at, quantity))
                del parts[part]
        for part, quantity in wanted.items():
            if part not in parts:
                parts[part] = (at, quantity)
        facts = state.facts()
        if facts != state.recorded:
            self._close_capacity(state, at)
            state.opened, state.recorded = at, facts

    def _close_capacity(self, state: DeviceState, at: int) -> None:
        if state.opened < at:
            self._capacity_rows.append(state.capacity_row(at))

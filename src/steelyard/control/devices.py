"""What becomes of one device: registered, seen otherwise, divided, retired; facts and condition as intervals.

Its availability is decided in one place (`model/availability.py`) from what is kept of it here, whenever any
of that changes; the meter is told in the same unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec

from steelyard.control.context import Context
from steelyard.evidence.usage import MeterDevice
from steelyard.model.availability import OFFERED, availability_of, closed_state
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource
from steelyard.model.resources import (
    ACCELERATORS,
    Availability,
    DeviceClass,
    Fact,
    FoundDevice,
    UnavailableReason,
)
from steelyard.services.conditions import MAX_HOLDERS, MAX_SIGNS, condition_row, text_beside
from steelyard.services.flags import lift_row, row_of
from steelyard.services.live_records import SOUND, Condition, LiveDevice, LiveNode
from steelyard.store import tables as t
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode
Json = dict[str, Any]
_State: TypeAlias = tuple[Availability, str | None]
#: A measured occupation that moved by less than this part of the capacity is the same.
DEADBAND = 20
#: What is said of a device that was known and is not found.
NOT_FOUND = Condition(
    Health.MISSING, (Sign(SignCode.NOT_FOUND, Health.MISSING, SignSource.BUS),)
)
#: Columns of a device that an inventory may find changed.
_SEEN = ("family", "model", "memory")


@dataclass(slots=True)
class Changes:
    """What is to be said of a node's devices in its leaf, and whose health turned bad."""

    said: list[Json] = field(default_factory=list)
    failing: list[LiveDevice] = field(default_factory=list)


def condition_of(found: FoundDevice, before: Condition) -> Condition:
    """What an inventory says of a device; equal to `before` where only a measurement moved."""
    holders = (found.holders or ())[:MAX_HOLDERS]
    occupied = _occupied(found, before.occupied) if found.device_class not in ACCELERATORS else 0
    signs = found.signs[:MAX_SIGNS]
    if [_key(sign) for sign in signs] == [_key(sign) for sign in before.signs]:
        signs = before.signs
    if [(h.pid, h.name, h.start_time) for h in holders] == [
        (h.pid, h.name, h.start_time) for h in before.holders
    ]:
        holders = before.holders
    made = Condition(found.health, signs, holders, occupied, found.reason_text)
    return SOUND if made == SOUND else made


def _key(sign: Sign) -> tuple[object, ...]:
    """A measurement that moved makes no other sign; another Xid does."""
    return sign.code, sign.health, sign.source, sign.params.get("xid")


def _occupied(found: FoundDevice, before: int) -> int:
    taken = sum(_amount(found.device_class, holder) for holder in found.holders or ())
    if taken and before and abs(taken - before) * DEADBAND < found.capacity:
        return before
    return taken


def _amount(device_class: DeviceClass, holder: DeviceHolder) -> int:
    return (holder.cpu if device_class is DeviceClass.CPU else holder.memory) or 0


class Devices:
    """Books one device at a time into a unit, in the live state and on the meter."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.by_uid: dict[tuple[str, str], LiveDevice] = {
            (device.cluster, device.uid): device for device in context.state.devices.values()
        }

    # --- a new one ---------------------------------------------------------------------------------
    def register(
        self, unit: Unit, node: LiveNode, found: FoundDevice, now: int, divided: bool
    ) -> LiveDevice:
        """A device that was not known."""
        context = self._context
        parent = self.by_uid.get((node.cluster, found.parent_uid or ""))
        simulated = node.simulated or any(fact.provenance == "simulated" for fact in found.facts.values())
        device = LiveDevice(
            context.store.ids.next(), node.id, node.cluster, found.uid, found.device_class, found.family,
            found.model, found.capacity, found.memory, Availability.AVAILABLE, None, simulated, divided, 1,
            None, None, found.parent_uid,
        )  # fmt: skip
        device.condition = condition_of(found, SOUND)
        self.place(device, found, node)
        (device.availability, device.reason), device.text = self._decided(device, node)
        node.devices.append(device)
        context.state.devices[device.id] = self.by_uid[node.cluster, found.uid] = device
        unit.insert(
            t.device, id=device.id, cluster=node.cluster, node_id=node.id, uid=found.uid,
            device_class=found.device_class.value, family=found.family, model=found.model,
            capacity=found.capacity, memory=found.memory, parent_id=None if parent is None else parent.id,
            has_children=divided, availability=device.availability.value, reason=device.reason,
            reason_text=device.text, simulated=simulated, registered_at=now, retired_at=None, version=1,
        )  # fmt: skip
        for key, fact in sorted(found.facts.items()):
            self._open_fact(unit, device.id, key, fact, now, 1)
        if device.condition != SOUND:
            self._open_condition(unit, device, now)
        metered = MeterDevice(device.id, device.cluster, device.device_class, device.simulated)
        context.meter.register(
            metered, 0 if divided else device.capacity, now, availability=device.availability.value,
            reason=device.reason,
        )  # fmt: skip
        if device.condition.occupied:
            context.meter.occupy(device.id, device.condition.occupied, now)
        return device

    # --- one that is known -------------------------------------------------------------------------
    def place(self, device: LiveDevice, found: FoundDevice | None, node: LiveNode) -> None:
        """What its place makes of it: its engine may speak of it alone, or of its whole node."""
        device.place = OFFERED
        if found is not None:
            device.place = closed_state(found.availability, found.reason)[0]
        if device.place == OFFERED:
            device.place = closed_state(node.availability, node.reason)[0]

    def seen(self, unit: Unit, device: LiveDevice, condition: Condition, now: int) -> None:
        """What sources say of it and who is on it: an interval that is closed when it changes."""
        if condition == device.condition:
            return
        if device.condition != SOUND:
            where = {"device_id": device.id, "version": device.condition_version}
            unit.update(t.device_condition, where, null=("valid_to",), valid_to=now)
        device.condition = condition
        if condition != SOUND:
            self._open_condition(unit, device, now)
        if condition.occupied or device.id in self._context.meter:
            self._context.meter.occupy(device.id, condition.occupied, now)
        self._context.state.touch(device.id)

    def _open_condition(self, unit: Unit, device: LiveDevice, now: int) -> None:
        device.condition_version = now  # instants grow strictly, so it is newer than any before
        unit.insert(
            t.device_condition, device_id=device.id, **condition_row(device.condition), valid_from=now,
            valid_to=None, version=now,
        )  # fmt: skip

    def facts(
        self, unit: Unit, device: LiveDevice, known: Mapping[str, Json], found: Mapping[str, Fact], now: int
    ) -> list[Json]:
        """Close what is no longer so, open what is. `known` → the open fact's value, provenance, source and
        version, and is brought up to date. What changed, for the leaf."""
        said: list[Json] = []
        for key in sorted(known.keys() - found.keys()):
            self._close_fact(unit, device.id, key, known[key], now)
            said.append({"uid": device.uid, "fact": key, "from": known[key]["value"], "to": None})
        for key, fact in sorted(found.items()):
            old = known.get(key)
            told = (fact.value, fact.provenance.value, fact.source)
            if old is not None and (old["value"], old["provenance"], old["source"]) == told:
                continue
            if old is not None:
                self._close_fact(unit, device.id, key, old, now)
            # One that comes back after a while must not take a version that it had: instants grow strictly.
            self._open_fact(unit, device.id, key, fact, now, now if old is None else old["version"] + 1)
            said.append(
                {"uid": device.uid, "fact": key, "from": None if old is None else old["value"],
                 "to": fact.value, "provenance": fact.provenance.value, "source": fact.source}
            )  # fmt: skip
        return said

    def _open_fact(self, unit: Unit, device_id: int, key: str, fact: Fact, now: int, version: int) -> None:
        unit.insert(
            t.device_fact, device_id=device_id, key=key, value_json=_encode(fact.value).decode(),
            provenance=fact.provenance.value, source=fact.source, at=fact.at, valid_from=now, valid_to=None,
            version=version,
        )  # fmt: skip

    def _close_fact(self, unit: Unit, device_id: int, key: str, old: Json, now: int) -> None:
        where = {"device_id": device_id, "key": key, "version": old["version"]}
        unit.update(t.device_fact, where, null=("valid_to",), valid_to=now)

    def measures(self, unit: Unit, device: LiveDevice, found: FoundDevice) -> list[Json]:
        """Its family, model, memory and capacity as they are now. What is held of it stays its capacity."""
        size = max(found.capacity, device.held + device.quarantined)
        wanted = {name: getattr(found, name) for name in _SEEN} | {"capacity": size}
        changed = {name: value for name, value in wanted.items() if getattr(device, name) != value}
        if not changed:
            return []
        said = [
            {"uid": device.uid, "measure": name, "from": getattr(device, name), "to": value}
            for name, value in changed.items()
        ]
        for name, value in changed.items():
            setattr(device, name, value)
        unit.update(t.device, {"id": device.id}, **changed)
        self._context.state.touch_node(device.node_id)
        return said

    # --- what follows ------------------------------------------------------------------------------
    def _decided(self, device: LiveDevice, node: LiveNode) -> tuple[_State, str | None]:
        """Its state, and the free text beside the reason."""
        state, condition = self._context.state, device.condition
        parent = self.by_uid.get((device.cluster, device.parent_uid or ""))
        flags = state.flags_on(device.id, device.node_id, None if parent is None else parent.id)
        availability, reason = availability_of(
            condition.health, frozenset(flags), device.unowned, place=device.place,
            divided=device.has_children,
        )  # fmt: skip
        said = {kind: flag.reason for kind, flag in flags.items()}
        text = text_beside(reason, condition, said, node.text)
        return (availability, None if reason is None else reason.value), text

    def settle(self, unit: Unit, device: LiveDevice, now: int, changes: Changes | None = None) -> bool:
        """Decide its availability anew and book it; True where it, its text or its capacity changed."""
        context, node = self._context, self._context.state.nodes[device.node_id]
        before = (device.availability, device.reason)
        decided, text = self._decided(device, node)
        size = 0 if device.has_children else device.capacity
        meter = context.meter
        if device.id not in meter:  # a version that did not meter what is divided
            meter.register(
                MeterDevice(device.id, device.cluster, device.device_class, device.simulated), size, now,
                pool=device.pool, availability=decided[0].value, reason=decided[1],
            )  # fmt: skip
        resized = meter.capacity(device.id) != size
        if decided == before and text == device.text and not resized:
            return False
        (device.availability, device.reason), device.text = decided, text
        unit.update(
            t.device, {"id": device.id}, availability=decided[0].value, reason=decided[1], reason_text=text
        )
        context.state.touch(device.id)
        meter.set_availability(device.id, decided[0].value, decided[1], now, size)
        if changes is not None and decided != before:
            changes.said.append(_change(device, before))
            if device.condition.health in (Health.UNHEALTHY, Health.MISSING) and device.held:
                changes.failing.append(device)
        return True

    def divide(self, unit: Unit, device: LiveDevice, divided: bool) -> None:
        """Its children are offered instead of it, or it is whole again."""
        device.has_children = divided
        unit.update(t.device, {"id": device.id}, has_children=divided)
        self._context.state.touch_node(device.node_id)

    def retire(self, unit: Unit, device: LiveDevice, now: int) -> None:
        """It is gone for good; nothing of it may be held. Another of the same UID is another device."""
        context = self._context
        self.seen(unit, device, SOUND, now)
        context.meter.retire(device.id, now)
        if device.pool is not None:
            where = {"device_id": device.id, "pool": device.pool}
            unit.update(t.pool_member, where, null=("valid_to",), valid_to=now)
        unit.update(
            t.device, {"id": device.id}, retired_at=now, availability=Availability.PLANNED.value,
            reason=UnavailableReason.RETIRED.value,
        )  # fmt: skip
        del context.state.devices[device.id]
        self.by_uid.pop((device.cluster, device.uid), None)
        context.state.nodes[device.node_id].devices.remove(device)
        for flag in context.state.flags.pop(device.id, {}).values():
            lift_row(unit, row_of(flag, device.cluster), "control", "retired", now)
        context.state.touch_node(device.node_id)


def _change(device: LiveDevice, before: _State) -> Json:
    said: Json = {
        "uid": device.uid, "from": before[0].value, "to": device.availability.value, "reason": device.reason
    }  # fmt: skip
    if device.text is not None:
        said["text"] = device.text
    if device.condition.health is not Health.HEALTHY:
        said["health"] = device.condition.health.value
        said["signs"] = [sign.code.value for sign in device.condition.signs]
    return said


def outline(device: LiveDevice) -> Json:
    """A device as the leaf of its registration has it."""
    return {
        "uid": device.uid,
        "class": device.device_class.value,
        "family": device.family,
        "model": device.model,
        "capacity": device.capacity,
        "availability": device.availability.value,
        "reason": device.reason,
    }


def parents_first(devices: Iterable[FoundDevice]) -> list[FoundDevice]:
    """In an order in which a parent is known before its children are."""
    return sorted(devices, key=lambda device: device.parent_uid is not None)

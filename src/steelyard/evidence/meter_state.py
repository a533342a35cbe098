"""What one device is doing since when: the open segments of the meter, and the rows that they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from steelyard.model.resources import DIMENSION, Availability, DeviceClass, UnavailableReason

Row: TypeAlias = dict[str, Any]
Part: TypeAlias = tuple[str, str]  # (state, reason); reason is "" where there is none

SCHEDULABLE = "idle.schedulable"
FRAGMENTED = "idle.fragmented"
BLOCKED = "idle.blocked"
RESERVED = "idle.reserved"
DRAINING = "idle.draining"
#: Why nobody holds what is free; `idle.reserved` comes from `reserve` alone.
IDLE_CAUSES = frozenset({SCHEDULABLE, FRAGMENTED, BLOCKED, DRAINING})
UNHELD_STATES = IDLE_CAUSES | {RESERVED} | {a.value for a in Availability if a is not Availability.AVAILABLE}

AVAILABLE = Availability.AVAILABLE.value
_QUARANTINE: Part = (Availability.UNPLANNED.value, UnavailableReason.RELEASE_UNCONFIRMED.value)
_UNOWNED: Part = (Availability.UNPLANNED.value, UnavailableReason.OCCUPIED_UNOWNED.value)
_IDLE: Part = (SCHEDULABLE, "")
_encode = msgspec.json.Encoder().encode


class MeterError(ValueError):
    """A change that can't be true: more held than there is, less than nothing, or back in time."""


@dataclass(frozen=True, slots=True)
class MeterDevice:
    """What of a device never changes while it is metered. A parent whose children are metered is not."""

    id: int
    cluster: str
    device_class: DeviceClass
    simulated: bool


class DeviceState:
    """One device. `parts` are the open unheld segments as of `at`; what differs from them is pending."""

    __slots__ = (
        "at", "availability", "capacity", "claims", "cluster", "device_class", "dimension", "held", "id",
        "idle", "occupied", "opened", "parts", "pending", "plain", "pool", "quarantined", "reason",
        "recorded", "simulated", "version",
    )  # fmt: skip

    def __init__(self, device: MeterDevice, capacity: int, pool: str | None, now: int) -> None:
        self.id = device.id
        self.cluster = device.cluster
        self.device_class = DeviceClass(device.device_class).value
        self.dimension = DIMENSION[device.device_class].value
        self.simulated = device.simulated
        self.capacity = capacity
        self.pool = pool
        self.availability = AVAILABLE
        self.reason: str | None = None
        self.held = 0
        self.idle = _IDLE
        self.claims: dict[str, int] = {}  # holder → what it reserved
        self.quarantined: dict[str, int] = {}  # holder → what it has not provably given back
        self.occupied = 0  # what somebody uses of it whom no workload owns
        self.at = now  # the instant of the newest change
        self.opened = now  # since when the capacity segment is open
        self.recorded = self.facts()  # what the open capacity segment says
        self.parts: dict[Part, tuple[int, int]] = {}  # → (since, quantity)
        self.pending = False
        self.plain = True  # available, nothing reserved, nothing quarantined
        self.version = 0

    def facts(self) -> tuple[int, str, str | None, str | None]:
        return self.capacity, self.availability, self.reason, self.pool

    def refresh(self) -> None:
        offered = self.availability == AVAILABLE
        self.plain = offered and not self.claims and not self.quarantined and not self.occupied

    def wanted(self) -> dict[Part, int]:
        """The unheld quantity by state and reason; sums to capacity − held."""
        free = self.capacity - self.held
        if self.plain:
            return {self.idle: free} if free else {}
        if self.availability != AVAILABLE:
            return {(self.availability, self.reason or ""): free} if free else {}
        parts: dict[Part, int] = {}
        kept_back = sum(self.quarantined.values())
        if kept_back:
            parts[_QUARANTINE] = kept_back
            free -= kept_back
        if taken := min(self.occupied, free):
            parts[_UNOWNED] = taken
            free -= taken
        for holder, quantity in self.claims.items():
            kept = min(quantity, free)  # the rest of the claim is held by those who have yet to stop
            if kept:
                parts[RESERVED, holder] = kept
                free -= kept
        if free:
            parts[self.idle] = free
        return parts

    def capacity_row(self, until: int) -> Row:
        capacity, availability, reason, pool = self.recorded
        return {
            "device_id": self.id,
            "t0": self.opened,
            "t1": until,
            "cluster": self.cluster,
            "pool": pool,
            "device_class": self.device_class,
            "dimension": self.dimension,
            "capacity": capacity,
            "availability": availability,
            "reason": reason,
            "simulated": self.simulated,
        }

    def unheld_row(self, part: Part, since: int, until: int, quantity: int) -> Row:
        return {
            "device_id": self.id,
            "t0": since,
            "t1": until,
            "state": part[0],
            "reason": part[1],
            "quantity": quantity,
            "cluster": self.cluster,
            "device_class": self.device_class,
            "simulated": self.simulated,
        }

    def meter_row(self) -> Row:
        state = {
            "at": self.at,
            "capacity": self.capacity,
            "availability": self.availability,
            "reason": self.reason,
            "pool": self.pool,
            "idle": self.idle,
            "parts": [(*part, *value) for part, value in self.parts.items()],
            "claims": self.claims,
            "quarantined": self.quarantined,
            "occupied": self.occupied,
        }
        return {
            "device_id": self.id,
            "capacity_since": self.opened,
            "unheld_json": _encode(state).decode(),
            "held": self.held,
            "version": self.version,
        }

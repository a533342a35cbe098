"""A small world that meters itself: devices, attempts that hold shares of them, faults, restarts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from steelyard.evidence.usage import AttemptFacts, EndFacts, Meter, MeterDevice, MeterWrites, holding_rows
from steelyard.evidence.usage import wait_rows as make_waits
from steelyard.model.organisation import OrgEdge
from steelyard.model.orghistory import OrgHistory
from steelyard.model.resources import DeviceClass, ShareKind

Row = dict[str, Any]
CAPACITY = 1000
DEVICES = 3
ORG = OrgHistory(
    [
        OrgEdge("project", "alpha", "red", 1, 40, 1, 1),
        OrgEdge("project", "alpha", "blue", 40, None, 2, 3),
        OrgEdge("namespace", "ns", "alpha", 1, None, 1, 2),
    ]
)

OPERATION = st.tuples(
    st.sampled_from(
        [
            "start",
            "start",
            "stage",
            "stage",
            "end",
            "end",
            "lose",
            "find",
            "reserve",
            "cause",
            "flush",
            "restart",
        ]
    ),
    st.integers(0, DEVICES - 1),
    st.integers(1, CAPACITY),
    st.integers(0, 7),
)
OPERATIONS = st.lists(OPERATION, min_size=3, max_size=40)


@dataclass
class Allocation:
    id: int
    attempt_id: int
    device_id: int
    quantity: int
    t0: int
    t1: int | None = None
    cluster: str = "west"
    flavor: str = "a100"
    device_class: DeviceClass = DeviceClass.GPU
    share_kind: ShareKind = ShareKind.TIME_SLICED
    org_version: int = 1
    policy_version: int = 1
    quota_basis: str = "in-quota"
    lender: str | None = None

    def row(self) -> Row:
        names = (
            "id",
            "attempt_id",
            "device_id",
            "quantity",
            "t0",
            "t1",
            "cluster",
            "device_class",
            "share_kind",
        )
        return {name: getattr(self, name) for name in names}


@dataclass
class Attempt:
    id: int
    allocation: Allocation
    times: dict[str, int | None]
    phase: str = "starting"

    def row(self) -> Row:
        names = ("submitted", "eligible", "reserved", "placed", "started", "ended", "release_confirmed")
        return {"id": self.id, "phase": self.phase, **{name: self.times.get(name) for name in names}}


@dataclass
class World:
    """Runs operations; what can't be done (no room, nothing to end) is left out."""

    now: int = 10
    meter: Meter = field(default_factory=Meter)
    attempts: list[Attempt] = field(default_factory=list)
    capacity: list[Row] = field(default_factory=list)
    unheld: list[Row] = field(default_factory=list)
    kept: dict[int, Row] = field(default_factory=dict)  # device_meter
    holding: list[Row] = field(default_factory=list)
    waits: list[Row] = field(default_factory=list)
    quarantined: list[int] = field(default_factory=lambda: [0] * DEVICES)
    count: int = 0

    def __post_init__(self) -> None:
        for device_id in range(DEVICES):
            self.meter.register(MeterDevice(device_id, "west", DeviceClass.GPU, True), CAPACITY, self.now)

    def run(self, operations: list[tuple[str, int, int, int]]) -> None:
        for name, device_id, quantity, delay in operations:
            self.now += delay
            getattr(self, name)(device_id, quantity)
        self.flush(0, 0)

    def start(self, device_id: int, quantity: int) -> None:
        if self.meter.held(device_id) + self.quarantined[device_id] + quantity > CAPACITY:
            return
        self.count += 1
        self.meter.hold(device_id, quantity, self.now)
        allocation = Allocation(self.count, self.count, device_id, quantity, self.now)
        times: dict[str, int | None] = {
            "submitted": self.now - 3,
            "eligible": self.now - 2,
            "placed": self.now,
        }
        self.attempts.append(Attempt(self.count, allocation, times))
        self.waits += make_waits(self.count, self.now - 3, self.now, [(self.now - 2, None, "priority")])

    def _pick(self, quantity: int, *phases: str) -> Attempt | None:
        found = [attempt for attempt in self.attempts if attempt.phase in phases]
        return found[quantity % len(found)] if found else None

    def stage(self, device_id: int, quantity: int) -> None:
        attempt = self._pick(quantity, "starting", "running")
        if attempt is not None:
            after = {"starting": ("running", "started"), "running": ("releasing", "ended")}[attempt.phase]
            attempt.phase, attempt.times[after[1]] = after[0], self.now

    def end(self, device_id: int, quantity: int) -> None:
        attempt = self._pick(quantity, "starting", "running", "releasing")
        if attempt is None:
            return
        attempt.times.setdefault("ended", self.now)
        attempt.times["release_confirmed"] = attempt.allocation.t1 = self.now
        attempt.phase = "finished"
        self.meter.release(attempt.allocation.device_id, attempt.allocation.quantity, self.now)
        state = "confirmed"
        if quantity % 4 == 0:
            state = "quarantined"
            device = attempt.allocation.device_id
            self.quarantined[device] += attempt.allocation.quantity
            self.meter.quarantine(device, attempt.allocation.quantity, f"at_{attempt.id}", self.now)
        self.holding += self.rows_of(attempt, EndFacts("succeeded", release=state))

    def rows_of(self, attempt: Attempt, end: EndFacts = EndFacts()) -> list[Row]:  # noqa: B008
        facts = AttemptFacts(attempt.id, attempt.id, "batch", "q", 0, "us", "ns", "alpha", True)
        return holding_rows(facts, [attempt.allocation], attempt.times, self.now, ORG, end)

    def lose(self, device_id: int, quantity: int) -> None:
        availability = ("unknown", "unavailable.planned")[quantity % 2]
        self.meter.set_availability(device_id, availability, "cordoned", self.now)

    def find(self, device_id: int, quantity: int) -> None:
        self.meter.set_availability(device_id, "available", None, self.now)

    def reserve(self, device_id: int, quantity: int) -> None:
        if quantity % 2:
            self.meter.reserve(device_id, quantity, f"at_{quantity % 5}", self.now)
        else:
            self.meter.unreserve(device_id, f"at_{quantity % 5}", self.now)

    def cause(self, device_id: int, quantity: int) -> None:
        causes = ("idle.schedulable", "idle.fragmented", "idle.blocked")
        self.meter.set_idle_cause([device_id], causes[quantity % 3], self.now)

    def flush(self, device_id: int, quantity: int) -> None:
        self._keep(self.meter.flush(self.now))

    def _keep(self, writes: MeterWrites) -> None:
        self.capacity += writes.capacity_rows
        self.unheld += writes.unheld_rows
        self.kept.update((row["device_id"], row) for row in writes.meter_rows)

    def restart(self, device_id: int, quantity: int) -> None:
        self.flush(0, 0)
        self.meter = Meter()
        fixed = {"cluster": "west", "device_class": "gpu", "simulated": True}
        self.meter.load([{**row, **fixed} for row in self.kept.values()])

    def books(self) -> dict[str, list[Row]]:
        """All rows up to now, open ones cut there."""
        capacity, unheld = self.meter.open_segments(self.now)
        live = [
            row for attempt in self.attempts if attempt.phase != "finished" for row in self.rows_of(attempt)
        ]
        return {
            "devices": [{"id": n, "registered_at": 10, "retired_at": None} for n in range(DEVICES)],
            "capacity": self.capacity + capacity,
            "unheld": self.unheld + unheld,
            "holding": self.holding + live,
            "allocations": [attempt.allocation.row() for attempt in self.attempts],
            "attempts": [attempt.row() for attempt in self.attempts],
            "waits": self.waits,
        }

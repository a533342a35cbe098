"""The records of what is live: attempts with their members and allocations, nodes with their devices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from steelyard.engines.port import MemberObservation, ReleaseProbe
from steelyard.evidence.leaf import Head
from steelyard.model.availability import OFFERED, State
from steelyard.model.health import DeviceFlag, DeviceHolder, Health, Sign
from steelyard.model.ids import render
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.resources import ACCELERATORS, Availability, DeviceClass, ShareKind, UnavailableReason
from steelyard.model.workloads import AllocationPlan, MemberPlan, Shape, WorkloadSpec
from steelyard.scheduling import Charge, PendingItem, RunningView
from steelyard.scheduling.bundles import may_grow, split
from steelyard.scheduling.snapshot import least_of, limited
from steelyard.scheduling.subjects import Counting
from steelyard.services.failure_log import Line


@dataclass(slots=True)
class LiveAllocation:
    """An open allocation."""

    id: int
    device_id: int
    node_id: int
    cluster: str
    flavor: str
    device_class: DeviceClass
    quantity: int
    share_kind: ShareKind
    t0: int
    org_version: int
    policy_version: int
    quota_basis: str
    lender: str | None

    def plan(self) -> AllocationPlan:
        """In the scheduler's form."""
        return AllocationPlan(
            self.device_id, self.node_id, self.flavor, self.device_class, self.quantity, self.share_kind
        )


@dataclass(slots=True)
class LiveMember:
    """A member and the last that was seen of it."""

    id: int
    text_id: str
    role: str
    index: int
    cluster: str
    node_id: int
    node: str
    phase: str
    allocations: list[LiveAllocation]
    seen: MemberObservation | None = None
    started_at: int | None = None
    ended_at: int | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    failure: str | None = None
    endpoint: str | None = None
    lines: tuple[Line, ...] | None = None  # what its log says about its end; None: not read
    apart: bool = False  # started, stopped and released by itself: its attempt can go on without it
    leaving_at: int | None = None  # asked to stop while its attempt goes on
    joined_at: int | None = None  # while its attempt ran already
    command_at: int = 0  # when the engine was last told something of it alone

    @property
    def part_id(self) -> str:
        """Under which name engines know it, where it is apart: as an attempt of one member."""
        return render("attempt", self.id)


@dataclass(slots=True)
class LiveAttempt:
    """A workload with its current attempt."""

    workload_id: int
    attempt_id: int
    number: int
    name: str
    namespace: str
    project: str
    kind: str
    queue: str
    priority: int
    submitter: str
    shape: Shape
    shape_id: int
    spec: WorkloadSpec
    phase: Phase
    sub_stage: str | None
    submitted_at: int
    version: int
    attempt_version: int
    head: Head
    times: dict[str, int | None]
    cancel_requested_at: int | None
    stop_reason: str | None
    not_before: int
    policy_version: int | None
    previous_id: int | None = None  # the attempt before, from whose work folder this one may resume
    sliced_until: int | None = None  # how far its wait is booked already
    simulated: bool = False
    outcome: Outcome | None = None  # set when every member has ended
    members: list[LiveMember] = field(default_factory=list)
    charges: tuple[Charge, ...] = ()
    avoid: tuple[int, ...] = ()  # nodes on which attempts before it failed, through no fault of their own
    started_once: bool = False  # the start was handed to the agent in this life of the loop
    command_at: int = 0  # when the engine was last told something about it
    probe_at: int = 0
    last_probes: dict[str, ReleaseProbe] = field(default_factory=dict)  # by cluster
    result: bytes | None = None  # what an evaluation left, once it was read
    result_read: bool = False
    group_id: int | None = None  # the first workload of its service or array
    group_index: int | None = None
    guaranteed: bool = False  # within its service's guarantee
    standby: bool = False  # as which it was born …
    activated_at: int | None = None  # … and until when
    served: int = 0  # µs that attempts before it ran which were stopped for others
    starving_bound: int | None = None  # µs within which it should have started, once it has waited longer
    joins_off: int | None = None  # since when nobody joins it any more
    left_at: int = 0  # when the newest member that left it was released: its later stages begin no earlier
    shrunk_at: int | None = None  # when members of it were last asked to leave while it goes on
    told: tuple[tuple[str, int], ...] = ()  # (role, index) of those that its members were told of

    def following(self, attempt_id: int, now: int, not_before: int, avoid: tuple[int, ...]) -> LiveAttempt:
        """The workload's next attempt, which waits. What is of the workload stays, what is of one attempt is
        as at the beginning."""
        return replace(
            self, attempt_id=attempt_id, number=self.number + 1, phase=Phase.QUEUED, sub_stage=None,
            version=self.version + 1, attempt_version=1, times={"submitted": now, "eligible": now},
            cancel_requested_at=None, stop_reason=None, not_before=not_before, policy_version=None,
            previous_id=self.attempt_id, sliced_until=None, simulated=False, outcome=None, members=[],
            charges=(), avoid=avoid, served=self.served + self._ran(), started_once=False, command_at=0,
            probe_at=0, last_probes={}, result=None, result_read=False, starving_bound=None, joins_off=None,
            left_at=0, shrunk_at=None, told=(),
        )  # fmt: skip

    def _ran(self) -> int:
        """How long it ran, where it was stopped for others; what failed is done again from its beginning."""
        started, ended = self.times.get("started"), self.times.get("ended")
        if self.outcome is not Outcome.PREEMPTED or started is None or ended is None:
            return 0
        return ended - started

    @property
    def clusters(self) -> set[str]:
        """Where its members are."""
        return {member.cluster for member in self.members}

    @property
    def apart(self) -> bool:
        """Whether it could lose a member and go on."""
        return bool(self.shape.least) and any(member.apart for member in self.members)

    @property
    def leaves(self) -> bool:
        """Whether a member leaves it now while it goes on."""
        return bool(self.shape.least) and any(member.leaving_at is not None for member in self.members)

    @property
    def staying(self) -> list[LiveMember]:
        """Its members without those that leave while it goes on."""
        if not self.shape.least:
            return self.members
        return [member for member in self.members if member.leaving_at is None]

    def parts(self) -> dict[int, set[str]]:
        """What engines start, stop and release as one, by id, with the clusters where it is: the attempt
        itself, and each member that is apart."""
        if not self.apart:
            return {self.attempt_id: self.clusters}
        found: dict[int, set[str]] = {}
        for member in self.members:
            found.setdefault(member.id if member.apart else self.attempt_id, set()).add(member.cluster)
        return found

    def part_of(self, part_id: int) -> list[LiveMember]:
        """The members of one part."""
        if part_id == self.attempt_id:
            return [member for member in self.members if not member.apart]
        return [member for member in self.members if member.id == part_id]

    def allocations(self) -> list[LiveAllocation]:
        """All that it holds."""
        return [allocation for member in self.members for allocation in member.allocations]

    def item(self) -> PendingItem:
        """As the scheduler sees it while it waits."""
        eligible = self.times.get("eligible") or self.submitted_at
        return PendingItem(
            self.workload_id, self.attempt_id, self.submitted_at, eligible, self.not_before,
            avoid=self.avoid, guaranteed=self.guaranteed, standby=self.stands_by, served=self.served,
        )

    @property
    def stands_by(self) -> bool:
        """Of a service's headroom, and not wanted yet."""
        return self.standby and self.activated_at is None

    def running_view(self) -> RunningView:
        """As the scheduler sees it while it holds devices."""
        stopping = self.phase in (Phase.STOPPING, Phase.RELEASING) or self.stop_reason is not None
        placed, started = self.times.get("placed") or 0, self.times.get("started")
        return RunningView(
            self.attempt_id,
            self.workload_id,
            self.shape.key,
            self.queue,
            self.project,
            self.priority,
            placed,
            self.plans(),
            self.charges,
            self.spec.preemptible and not self.guaranteed,
            stopping,
            self.name,
            self.submitter,
            self.kind,
            started,
            limited(started or placed, self.shape.time_limit),
            least_of(self.shape),
            template=self.shape.template,
            ids=self._ids(),
            grows=self.shape if self._may_grow() else None,
            shrunk_at=self.shrunk_at,
        )

    def running_views(self, counting: Counting) -> list[RunningView]:
        """The same, and each member that leaves as a run of its own."""
        leaving = {member.id for member in self.members if member.leaving_at is not None}
        return split(self.running_view(), leaving, counting)

    def _may_grow(self) -> bool:
        if not self.shape.grows or self.phase is not Phase.RUNNING or self.stop_reason is not None:
            return False
        return self.joins_off is None and not self.leaves and may_grow(self.shape, self.plans())

    def _ids(self) -> tuple[int, ...]:
        if not self.apart:
            return ()
        return tuple(member.id if member.apart else 0 for member in self.members)

    def plans(self) -> tuple[MemberPlan, ...]:
        """Where its members are, in the scheduler's form."""
        return tuple(
            MemberPlan(
                m.role,
                m.index,
                m.cluster,
                m.node_id,
                tuple(allocation.plan() for allocation in m.allocations),
            )
            for m in self.members
        )


@dataclass(slots=True)
class LiveRelease:
    """A release that was not proven, while what it holds is in quarantine. Its attempt is live no more."""

    attempt_id: int
    workload_id: int
    project: str
    clusters: tuple[str, ...]
    quarantined_at: int
    seen: str  # JSON of what the newest probe found
    version: int
    head: Head
    quantities: list[tuple[int, int]] = field(default_factory=list)  # (device, quantity)
    asked: str | None = None  # confirm | force | fence
    asked_by: str | None = None
    asked_reason: str | None = None
    asked_at: int | None = None
    fenced_at: int | None = None
    probes: dict[str, ReleaseProbe] = field(default_factory=dict)  # since the newest question, by cluster
    tries: int = 0
    next_at: int = 0  # when it is probed again by itself
    told_at: int = 0  # when the engines were told to fence


@dataclass(frozen=True, slots=True)
class Condition:
    """What sources said last of a device, and who was seen on it."""

    health: Health = Health.HEALTHY
    signs: tuple[Sign, ...] = ()  # worst first
    holders: tuple[DeviceHolder, ...] = ()
    occupied: int = 0  # of CPU and memory: what the holders use; an accelerator is occupied whole
    text: str | None = None  # free text beside the closed reasons


#: Nothing speaks against it, and nobody is on it: what a device is of which nothing else is stored.
SOUND = Condition()


@dataclass(slots=True)
class LiveDevice:
    """A device with what is held of it."""

    id: int
    node_id: int
    cluster: str
    uid: str
    device_class: DeviceClass
    family: str
    model: str
    capacity: int
    memory: int | None
    availability: Availability
    reason: str | None
    simulated: bool
    has_children: bool
    version: int
    pool: str | None
    flavor: str | None
    parent_uid: str | None = None
    held: int = 0
    quarantined: int = 0
    share_kind: ShareKind = ShareKind.EXCLUSIVE
    condition: Condition = SOUND
    condition_version: int = 0  # of its newest row
    place: State = OFFERED  # what its node or its cluster makes of it
    text: str | None = None  # free text beside the reason

    @property
    def free(self) -> int:
        """What may be offered now."""
        if self.availability is not Availability.AVAILABLE or self.has_children or self.flavor is None:
            return 0
        rest = self.capacity - self.held - self.quarantined
        if self.condition is SOUND:
            return rest
        return rest - min(self.condition.occupied, max(0, rest))  # what is measured may be more than is left

    @property
    def unowned(self) -> bool:
        """Whether somebody is on it whom no workload owns. Of one that is held in part, or was not proven
        free, or is divided that is not said; CPU and memory are occupied by amounts."""
        busy = self.held or self.quarantined or self.has_children
        return bool(self.condition.holders) and not busy and self.device_class in ACCELERATORS

    def withheld(self) -> Sequence[tuple[str, int]]:
        """(reason, quantity) of what is not offered of it."""
        if self.reason is None and not self.quarantined and self.condition is SOUND:
            return ()
        if self.availability is not Availability.AVAILABLE:
            return [(self.reason or "", self.capacity)]
        kept = [(UnavailableReason.RELEASE_UNCONFIRMED.value, self.quarantined)]
        if self.condition.occupied:
            rest = max(0, self.capacity - self.held - self.quarantined)
            taken = min(self.condition.occupied, rest)
            kept.append((UnavailableReason.OCCUPIED_UNOWNED.value, taken))
        return [(reason, amount) for reason, amount in kept if amount]


@dataclass(slots=True)
class LiveFlag:
    """A flag that stands on a node or on a device."""

    id: int
    kind: str  # node | device
    object_id: int
    flag: DeviceFlag
    drain: str | None  # how what runs there is asked to leave: orderly | at-once; None: it is not
    set_by: str
    reason: str
    since: int
    version: int
    head: Head
    attempt_id: int | None = None  # of the unproven release that set it


@dataclass(slots=True)
class LiveNode:
    """A node with its devices."""

    id: int
    cluster: str
    name: str
    labels: dict[str, str]
    availability: Availability
    reason: str | None
    simulated: bool
    version: int
    head: Head
    devices: list[LiveDevice] = field(default_factory=list)
    text: str | None = None  # free text beside its reason
    state_version: int = 0  # of its newest row of node_state

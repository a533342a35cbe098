"""Workloads: what is asked for. Workload → Role[] → Attempt → Member.

A single process is one role of count 1. Gang members share an attempt number.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from msgspec import Struct

from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.resources import ACCELERATORS, DeviceClass, ShareKind
from steelyard.model.units import WHOLE_DEVICE


class WorkloadKind(StrEnum):
    """Task types; routing maps each to its queue and priority."""

    TRAINING = "training"
    INFERENCE = "inference"
    BATCH = "batch"
    EXPERIMENT = "experiment"
    EVALUATION = "evaluation"


class RestartPolicy(StrEnum):
    """What follows a failed attempt."""

    NEVER = "never"
    ON_INFRASTRUCTURE = "on-infrastructure"
    ON_FAILURE = "on-failure"


@dataclass(frozen=True, slots=True)
class MemberRequest:
    """What each member of a role needs, by class, in the class's integer unit; zero is left out."""

    amounts: tuple[tuple[DeviceClass, int], ...]  # sorted by class name
    flavors: tuple[str, ...] = ()  # allowed flavors for the accelerator, in order; empty: any of the class
    models: tuple[str, ...] = ()  # allowed device models; empty: any
    clusters: tuple[str, ...] = ()  # allowed clusters; empty: any
    node_labels: tuple[tuple[str, str], ...] = ()
    needs: tuple[tuple[str, str], ...] = ()  # what the pool must offer: label key → value
    device_memory: int = 0  # MiB that it has of each device that it is on; 0: as its share gives

    def amount(self, device_class: DeviceClass) -> int:
        """The quantity asked of a class; 0 when it is not asked for."""
        return dict(self.amounts).get(device_class, 0)


@dataclass(frozen=True, slots=True)
class Probe:
    """How a service member proves that it answers."""

    path: str = "/healthz"
    interval: int = 1_000_000
    failures: int = 3


class Runtime(StrEnum):
    """What a member's program finds around it."""

    HOST = "host"
    VENV = "venv"  # the machine's programs, and a Python environment's before them
    CONTAINER = "container"  # an image's


class PullPolicy(StrEnum):
    """When an image is fetched."""

    NEVER = "never"
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Role:
    """A set of like members. A gang starts `count` of them together or none; with `least`, as many as fit and
    at least so many."""

    name: str
    count: int
    request: MemberRequest
    command: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    image: str | None = None
    working_directory: str | None = None
    port: bool = False  # each member is given a port of its own in STEELYARD_PORT
    probe: Probe | None = None
    tty: bool = False  # each member has a terminal of its own, to which one may attach
    requires: tuple[str, ...] = ()  # environment stage: modules or programs that must be there
    expect: dict[str, str] = field(default_factory=dict)  # simulated engine only: what a member is to do
    runtime: Runtime = Runtime.HOST  # container just where there is an image, venv just where there is one
    venv: str | None = None  # an absolute folder
    pull: PullPolicy = PullPolicy.NEVER
    least: int | None = None  # None: all of `count`
    shrink: bool = True  # with `least`: those above it may leave while the others go on
    grow: bool = False  # with `least`: others may join while it runs, up to `count`


@dataclass(frozen=True, slots=True)
class Replicas:
    """How many copies of a service run. Each is a workload of its own, placed, seen and released by itself.

    `guaranteed` of them always have a place: those that run, and the rest as headroom that is kept for them
    or, with `lend`, may be used by others until it is wanted back.
    """

    initial: int = 1
    guaranteed: int = 0
    most: int = 1
    lend: bool = False


@dataclass(frozen=True, slots=True)
class Array:
    """A batch of like tasks that differ by their index. Each is a workload of its own."""

    completions: int
    parallelism: int


@dataclass(frozen=True, slots=True)
class IdleLimit:
    """An experiment that uses less than this for that long is reclaimed. What is not known is not idle."""

    after: int  # µs
    cpu: int = 50  # milli-cores, of each member
    device: int = 50  # thousandths of its devices, where that can be seen


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What is evaluated on which data, and where the result stands: a JSON file among the artifacts."""

    model: str
    model_digest: str | None  # sha256, or None where the model is what `model_workload` left
    model_workload: str | None
    dataset: str
    dataset_digest: str | None
    result: str


@dataclass(frozen=True, slots=True)
class Topology:
    """How near to each other members must be: keys of node labels, from far to near (zone, rack, …)."""

    required: str | None = None  # all in one domain of this level, or the attempt does not start
    preferred: str | None = None  # in one domain of this level if there is one


@dataclass(frozen=True, slots=True)
class WorkloadSpec:
    """What a submitter declares, after template expansion and validation."""

    name: str
    namespace: str
    kind: WorkloadKind
    roles: tuple[Role, ...]
    queue: str | None = None
    priority_class: str | None = None
    template: str | None = None  # name@version
    time_limit: int | None = None  # µs of running
    grace: int = 10_000_000  # µs between TERM and KILL
    checkpoint: int | None = None  # µs it may take to save its work when told to, before TERM; None: it can't
    restart: RestartPolicy = RestartPolicy.ON_INFRASTRUCTURE
    max_attempts: int = 3
    hold: bool = False
    labels: tuple[tuple[str, str], ...] = ()
    artifacts: tuple[str, ...] = ()  # paths in the work folder that are kept
    preemptible: bool = True
    work_limit: int | None = None  # MiB in each member's work folder; None: as the cluster has it
    replicas: Replicas | None = None
    array: Array | None = None
    idle_limit: IdleLimit | None = None
    evaluation: Evaluation | None = None
    topology: Topology | None = None
    throughput: tuple[tuple[str, int], ...] = ()  # by model, thousandths of what it gets done in some unit


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides where a workload can go: equal shapes get equal answers, so reasons live here.

    `key` is a digest of everything below; order within a shape is (priority, submit time, id).
    """

    key: str
    queue: str
    project: str
    org_path: tuple[str, ...]  # organisation tree nodes from the leaf up: namespace, project, team
    priority: int
    roles: tuple[tuple[str, int, MemberRequest], ...]
    preemptible: bool
    kind: str | None = None  # None: of a shape from before pools had rules, as the next
    environment: str | None = None  # of its namespace
    priority_class: str | None = None
    user: str | None = None  # who submitted it, where limits or fairness go down to users
    time_limit: int | None = None  # µs of running
    least: tuple[int, ...] = ()  # smallest count by role, in the order of `roles`; empty: all or none
    topology: Topology | None = None
    template: str | None = None  # by name; whose runs tell how long it may take
    speeds: tuple[tuple[str, int], ...] = ()  # by model, thousandths of its speed on its best one
    grows: tuple[str, ...] = ()  # roles that others may join while it runs

    def totals(self) -> dict[DeviceClass, int]:
        """Quantity of the whole gang by class."""
        total: dict[DeviceClass, int] = {}
        for _, count, request in self.roles:
            for device_class, amount in request.amounts:
                total[device_class] = total.get(device_class, 0) + amount * count
        return total


class AllocationPlan(Struct, frozen=True, gc=False):
    """One row to be: a quantity of one device for one member."""

    device_id: int | None
    node_id: int
    flavor: str
    device_class: DeviceClass
    quantity: int
    share_kind: ShareKind = ShareKind.EXCLUSIVE
    asked: int | None = None  # where more was granted than asked for: so much was asked for


#: Of one flavor: devices that are taken whole, by id, and parts of others (device, quantity).
Pieces: TypeAlias = tuple[str, tuple[int, ...], tuple[tuple[int, int], ...]]
#: Of CPU or memory: class, flavor, device, quantity.
Piece: TypeAlias = tuple[DeviceClass, str, int | None, int]


def _taken_apart(allocations: Iterable[AllocationPlan]) -> tuple[tuple[Pieces, ...], tuple[Piece, ...]]:
    flavors: dict[str, tuple[list[int], list[tuple[int, int]]]] = {}
    others: list[Piece] = []
    for item in allocations:
        if item.device_class not in ACCELERATORS:
            others.append((item.device_class, item.flavor, item.device_id, item.quantity))
            continue
        whole, parts = flavors.setdefault(item.flavor, ([], []))
        if item.quantity == WHOLE_DEVICE:
            whole.append(item.device_id or 0)
        else:
            parts.append((item.device_id or 0, item.quantity))
    made = [(name, tuple(sorted(whole)), tuple(parts)) for name, (whole, parts) in flavors.items()]
    return tuple(made), tuple(others)


class MemberPlan(Struct, frozen=True, dict=True):
    """Where one member goes."""

    role: str
    index: int
    cluster: str
    node_id: int
    allocations: tuple[AllocationPlan, ...]

    def at(self, index: int) -> MemberPlan:
        """The same as another member of its role."""
        return MemberPlan(self.role, index, self.cluster, self.node_id, self.allocations)

    @cached_property
    def pieces(self) -> tuple[tuple[Pieces, ...], tuple[Piece, ...]]:
        """Accelerators by flavor, and the rest: taken apart when it is first asked for."""
        return _taken_apart(self.allocations)


@dataclass(frozen=True, slots=True)
class AttemptState:
    """An attempt as the store knows it: phase, stage times (µs, None if not reached), outcome."""

    id: int
    workload_id: int
    number: int
    phase: Phase
    sub_stage: str | None
    cluster: str | None
    times: dict[str, int | None]
    outcome: Outcome | None
    version: int

"""Resources: clusters, nodes, devices, pools, flavors, and where each fact comes from.

CPU and memory of a node are devices, too (class cpu and memory), so that one ledger, one capacity
check and one quota serve every class. The cluster is part of the key of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from steelyard.model.health import DeviceHolder, Health, Sign


class DeviceClass(StrEnum):
    """Closed. No quantity of one class ever satisfies a request for another."""

    GPU = "gpu"
    NPU = "npu"
    CPU = "cpu"
    MEMORY = "memory"
    OTHER = "other"


ACCELERATORS = (DeviceClass.GPU, DeviceClass.NPU, DeviceClass.OTHER)

#: The family → class map is versioned data: devices/families.yaml carries it; this is its shape.
FamilyClasses = dict[str, DeviceClass]


class Dimension(StrEnum):
    """What is counted on a device: whole devices and shares (milli), cores (milli), memory (MiB)."""

    DEVICE = "device"
    CPU = "cpu"
    MEMORY = "memory"


#: The dimension in which a class is allocated.
DIMENSION: dict[DeviceClass, Dimension] = {
    DeviceClass.GPU: Dimension.DEVICE,
    DeviceClass.NPU: Dimension.DEVICE,
    DeviceClass.OTHER: Dimension.DEVICE,
    DeviceClass.CPU: Dimension.CPU,
    DeviceClass.MEMORY: Dimension.MEMORY,
}


class Provenance(StrEnum):
    """How a fact is known. Simulated verifies nothing about hardware."""

    DECLARED = "declared"
    DETECTED = "detected"
    VERIFIED = "verified"
    SIMULATED = "simulated"


class Availability(StrEnum):
    """What a capacity segment says of a device."""

    AVAILABLE = "available"
    PLANNED = "unavailable.planned"
    UNPLANNED = "unavailable.unplanned"
    UNKNOWN = "unknown"


class UnavailableReason(StrEnum):
    """Closed list: no unavailable device is without one."""

    CORDONED = "cordoned"
    MAINTENANCE = "maintenance"
    UNHEALTHY = "unhealthy"
    HEALTH_UNKNOWN = "health-unknown"  # no source that can be trusted says how it is
    MISSING = "missing"
    OCCUPIED_UNOWNED = "occupied-unowned"  # a process that no workload owns is on it
    NODE_LOST = "node-lost"
    CLUSTER_UNREACHABLE = "cluster-unreachable"
    DISK_FULL = "disk-full"  # less is free than the cluster keeps free
    RUNNER_PROTOCOL = "runner-protocol"  # what runs is watched, nothing new is started
    RELEASE_UNCONFIRMED = "release-unconfirmed"
    FENCED = "fenced"  # taken out of service: nothing could end what holds it
    PARTITIONED = "partitioned"
    RETIRED = "retired"


class RegistrationOutcome(StrEnum):
    """What became of a device that was found."""

    REGISTERED = "registered"
    REFUSED = "refused"
    DUPLICATE = "duplicate"
    RETIRED = "retired"


class ShareKind(StrEnum):
    """Whether a share isolates its holder from the others on the device."""

    EXCLUSIVE = "exclusive"
    TIME_SLICED = "time-sliced"
    PARTITION = "partition"
    MEMORY_LIMITED = "memory-limited"
    VIRTUAL = "virtual"


class EngineKind(StrEnum):
    """What runs the work of a cluster."""

    LOCAL = "local"
    SIMULATED = "simulated"
    KUBERNETES = "kubernetes"
    SLURM = "slurm"


@dataclass(frozen=True, slots=True)
class Fact:
    """A value with its provenance; stands beside each fact, not beside each device."""

    value: str | int | bool | None
    provenance: Provenance
    source: str
    at: int


@dataclass(frozen=True, slots=True)
class FoundDevice:
    """A device as an engine's inventory reports it. `uid` is stable across renames, unique in the cluster."""

    uid: str
    device_class: DeviceClass
    capacity: int  # milli-devices, milli-cores or MiB
    family: str
    model: str
    parent_uid: str | None = None
    memory: int | None = None  # MiB of device memory; None where it is not known
    availability: Availability = Availability.AVAILABLE
    reason: str | None = None
    reason_text: str | None = None
    facts: dict[str, Fact] = field(default_factory=dict)
    health: Health = Health.HEALTHY
    signs: tuple[Sign, ...] = ()  # what speaks against full health, worst first
    holders: tuple[DeviceHolder, ...] | None = None  # processes on it; None where the engine can't see them


@dataclass(frozen=True, slots=True)
class FoundNode:
    """A node as an engine's inventory reports it."""

    name: str
    labels: dict[str, str]
    devices: tuple[FoundDevice, ...]
    availability: Availability = Availability.AVAILABLE
    reason: str | None = None
    reason_text: str | None = None
    facts: dict[str, Fact] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Device:
    """A device as the store knows it."""

    id: int
    cluster: str
    node_id: int
    node: str
    uid: str
    device_class: DeviceClass
    family: str
    model: str
    capacity: int
    memory: int | None
    parent_id: int | None
    has_children: bool
    availability: Availability
    reason: str | None
    simulated: bool
    version: int
    pool: str | None = None
    flavor: str | None = None

    @property
    def dimension(self) -> Dimension:
        """The dimension in which it is allocated."""
        return DIMENSION[self.device_class]

    @property
    def allocatable(self) -> bool:
        """A parent with children (MIG, dies of a card) is not itself allocatable."""
        return not self.has_children and self.availability is Availability.AVAILABLE

"""How well a device is, and what says so: states, the flags that people set, and the closed list of signs.

Health is what sources report; a flag is what somebody decided. Both are kept apart from availability,
which follows from them (`model/availability.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Health(StrEnum):
    """What the sources together say of a device. `missing`: known before and not found now."""

    HEALTHY = "healthy"
    DEGRADED = "degraded"
    UNHEALTHY = "unhealthy"
    MISSING = "missing"
    UNKNOWN = "unknown"


class DeviceFlag(StrEnum):
    """What an operator (or the proof of release) decided, whatever the sources say."""

    CORDONED = "cordoned"
    MAINTENANCE = "maintenance"
    QUARANTINED = "quarantined"


class OnDeviceFailure(StrEnum):
    """What becomes of work on a device that turns unhealthy or missing, as its cluster declares."""

    KEEP = "keep"  # it goes on; if it fails, the device is named
    STOP = "stop"  # it is asked to end, and goes on elsewhere


class SignSource(StrEnum):
    """Where a sign was read. One source alone may err: see devices/health.py for how they are weighed."""

    TOOL = "tool"
    KERNEL = "kernel"
    LINK = "link"
    ECC = "ecc"
    TEMPERATURE = "temperature"
    BUS = "bus"


class SignCode(StrEnum):
    """Closed list: why a device is not healthy, or why nothing is known of it."""

    VENDOR_WARNING = "vendor-warning"
    VENDOR_ALARM = "vendor-alarm"
    ECC_UNCORRECTED = "ecc-uncorrected"
    ROWS_PENDING = "rows-pending"
    XID = "xid"
    KERNEL_FAULT = "kernel-fault"
    FELL_OFF_BUS = "fell-off-bus"
    RESET_REQUIRED = "reset-required"
    OVERHEATED = "overheated"
    POWER_FAULT = "power-fault"
    LINK_DOWN = "link-down"
    LINK_DEGRADED = "link-degraded"
    COMPUTE_OFF = "compute-off"
    ROW_INCOMPLETE = "row-incomplete"
    READING_UNKNOWN = "reading-unknown"
    DRIVER_MISSING = "driver-missing"
    LIBRARY_MISSING = "library-missing"
    TOOL_MISSING = "tool-missing"
    TOOL_FAILED = "tool-failed"
    TOOL_TIMEOUT = "tool-timeout"
    TOOL_FOREIGN = "tool-foreign"
    PERMISSION_DENIED = "permission-denied"
    NOT_FOUND = "not-found"


@dataclass(frozen=True, slots=True)
class Sign:
    """One thing that a source said of a device: which health it speaks for, and the words it used."""

    code: SignCode
    health: Health
    source: SignSource
    detail: str = ""  # the source's own words, at most 200 characters, control characters taken out
    params: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceHolder:
    """A process that a source saw on a device, and that no workload of this installation owns.

    The machine's CPU and memory are shared by all its processes: their holders are those that take a large
    share for long (`cpu`, `memory`), and what they take is not to be given away; the rest stays on offer.
    """

    pid: int | None
    name: str | None
    memory: int | None = None  # MiB: of device memory, or of the machine's where that is the device
    start_time: int | None = None  # ticks since boot, so that a reused pid is told apart; None: not read
    cpu: int | None = None  # milli-cores, sustained; of a holder of the machine's CPU only

"""What health, flags and unowned holders make of a device's capacity: the one place where that is decided."""

from __future__ import annotations

from steelyard.model.health import DeviceFlag, Health
from steelyard.model.resources import Availability, UnavailableReason

#: Health → what it does to capacity. A degraded device is offered; placement may avoid it.
_BY_HEALTH: dict[Health, tuple[Availability, UnavailableReason | None]] = {
    Health.HEALTHY: (Availability.AVAILABLE, None),
    Health.DEGRADED: (Availability.AVAILABLE, None),
    Health.UNHEALTHY: (Availability.UNPLANNED, UnavailableReason.UNHEALTHY),
    Health.MISSING: (Availability.UNPLANNED, UnavailableReason.MISSING),
    Health.UNKNOWN: (Availability.UNKNOWN, UnavailableReason.HEALTH_UNKNOWN),
}


def availability_of(
    health: Health, flags: frozenset[DeviceFlag], unowned: bool = False
) -> tuple[Availability, UnavailableReason | None]:
    """What a device's health, its flags and a holder that nobody owns make of its capacity.

    A flag wins over health, for it is a decision and says who took it; among flags the quarantine does.
    """
    if DeviceFlag.QUARANTINED in flags:
        return Availability.UNPLANNED, UnavailableReason.FENCED
    if DeviceFlag.MAINTENANCE in flags:
        return Availability.PLANNED, UnavailableReason.MAINTENANCE
    if DeviceFlag.CORDONED in flags:
        return Availability.PLANNED, UnavailableReason.CORDONED
    availability, reason = _BY_HEALTH[health]
    if availability is Availability.AVAILABLE and unowned:
        return Availability.UNPLANNED, UnavailableReason.OCCUPIED_UNOWNED
    return availability, reason

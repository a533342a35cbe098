"""What health, flags, place and unowned holders make of a device's capacity: decided here alone."""

from __future__ import annotations

from typing import TypeAlias

from steelyard.model.health import DeviceFlag, Health
from steelyard.model.resources import Availability, UnavailableReason

State: TypeAlias = tuple[Availability, UnavailableReason | None]

OFFERED: State = (Availability.AVAILABLE, None)
#: A parent whose children are offered instead; its capacity is theirs, its own is none.
DIVIDED: State = (Availability.PLANNED, UnavailableReason.PARTITIONED)
#: Health → what it does to capacity. A degraded device is offered; placement may avoid it.
_BY_HEALTH: dict[Health, State] = {
    Health.HEALTHY: OFFERED,
    Health.DEGRADED: OFFERED,
    Health.UNHEALTHY: (Availability.UNPLANNED, UnavailableReason.UNHEALTHY),
    Health.MISSING: (Availability.UNPLANNED, UnavailableReason.MISSING),
    Health.UNKNOWN: (Availability.UNKNOWN, UnavailableReason.HEALTH_UNKNOWN),
}


def availability_of(
    health: Health,
    flags: frozenset[DeviceFlag],
    unowned: bool = False,
    *,
    place: State = OFFERED,
    divided: bool = False,
) -> State:
    """What a device's health, its flags, its node and a holder that nobody owns make of its capacity.

    A flag wins over all else, for it is a decision and says who took it; among flags the quarantine does.
    Then its `place` does (the node, or how its cluster is seen): on a lost node nothing else is known.
    The reason is None exactly where the capacity is available.
    """
    if DeviceFlag.QUARANTINED in flags:
        return Availability.UNPLANNED, UnavailableReason.FENCED
    if DeviceFlag.MAINTENANCE in flags:
        return Availability.PLANNED, UnavailableReason.MAINTENANCE
    if DeviceFlag.CORDONED in flags:
        return Availability.PLANNED, UnavailableReason.CORDONED
    for state in (place, _BY_HEALTH[health]):
        if state[0] is not Availability.AVAILABLE:
            return state
    if divided:
        return DIVIDED
    return (Availability.UNPLANNED, UnavailableReason.OCCUPIED_UNOWNED) if unowned else OFFERED


def closed_state(availability: Availability, reason: str | None) -> tuple[State, str | None]:
    """What an engine says of a place, with a reason of the closed list; and its own words where they are none
    of it. An engine that gives no reason, or one of its own, leaves nothing unavailable without one."""
    if availability is Availability.AVAILABLE:
        return OFFERED, None
    try:
        return (availability, UnavailableReason(reason or "")), None
    except ValueError:
        unsure = availability is Availability.UNKNOWN
        code = UnavailableReason.HEALTH_UNKNOWN if unsure else UnavailableReason.UNHEALTHY
        return (availability, code), reason

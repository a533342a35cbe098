"""What health, flags, place and strangers make of a device's capacity, in every combination."""

from __future__ import annotations

from itertools import chain, combinations, product

import pytest

from steelyard.model.availability import OFFERED, availability_of, closed_state
from steelyard.model.health import DeviceFlag, Health
from steelyard.model.resources import Availability, UnavailableReason

FLAGS = [frozenset(some) for some in chain.from_iterable(combinations(DeviceFlag, n) for n in range(4))]
PLACES = [
    OFFERED,
    (Availability.UNPLANNED, UnavailableReason.NODE_LOST),
    (Availability.UNKNOWN, UnavailableReason.CLUSTER_UNREACHABLE),
]
EVERY = list(product(Health, FLAGS, (False, True), PLACES, (False, True)))


@pytest.mark.requirement("B9")
def test_nothing_is_unavailable_without_a_reason_and_nothing_available_has_one() -> None:
    for health, flags, unowned, place, divided in EVERY:
        availability, reason = availability_of(health, flags, unowned, place=place, divided=divided)
        assert (availability is Availability.AVAILABLE) == (reason is None)


def test_only_a_sound_device_that_nobody_flagged_or_occupies_is_offered() -> None:
    for health, flags, unowned, place, divided in EVERY:
        found = availability_of(health, flags, unowned, place=place, divided=divided)
        sound = health in (Health.HEALTHY, Health.DEGRADED)
        free = not flags and not unowned and place == OFFERED and not divided
        assert (found == OFFERED) == (sound and free)


def test_what_somebody_decided_goes_before_what_sources_say() -> None:
    for health, flags, unowned, place, divided in EVERY:
        found = availability_of(health, flags, unowned, place=place, divided=divided)
        if DeviceFlag.QUARANTINED in flags:
            assert found == (Availability.UNPLANNED, UnavailableReason.FENCED)
        elif flags:
            assert found[0] is Availability.PLANNED
        elif place != OFFERED:
            assert found == place


def test_the_reason_of_an_engine_is_one_of_the_list_or_kept_as_words() -> None:
    unplanned = Availability.UNPLANNED
    assert closed_state(unplanned, "node-lost") == ((unplanned, UnavailableReason.NODE_LOST), None)
    assert closed_state(unplanned, "NotReady") == ((unplanned, UnavailableReason.UNHEALTHY), "NotReady")
    assert closed_state(Availability.UNKNOWN, None)[0][1] is UnavailableReason.HEALTH_UNKNOWN
    assert closed_state(Availability.AVAILABLE, "whatever") == (OFFERED, None)

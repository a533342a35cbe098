"""S-26: over time shares follow weights although some submit more, and larger work, than others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.fairness import WEIGHTS, House, deviation, lately
from steelyard.model.policy import Fairness, Policy, PreemptionRule, QueueOrder, QueueRules, Reclaim
from steelyard.model.units import HOUR, MINUTE

PATIENT = QueueRules(reservations=0, preemption=PreemptionRule(within_queue=False, reclaim=Reclaim.NEVER))
POLICY = Policy(
    1, order=QueueOrder.FAIR_SHARE, fairness=Fairness(2 * HOUR, 5 * MINUTE), defaults=PATIENT,
    queues={name: QueueRules(weight=weight) for name, weight in WEIGHTS.items()},
)  # fmt: skip


def used(house: House, hours: int) -> dict[str, int]:
    """By queue, in the hours to come."""
    before = dict(house.used)
    house.run(house.now + hours * HOUR)
    return {name: house.used.get(name, 0) - before.get(name, 0) for name in WEIGHTS}


@pytest.mark.requirement("E3")
def test_with_a_memory_shares_follow_weights_and_without_one_they_miss_them() -> None:
    remembers, forgets = House(POLICY, 1, 2), House(replace(POLICY, fairness=Fairness()), 1, 2)
    for house in (remembers, forgets):
        used(house, 4)
    assert deviation(used(remembers, 8)) < 2
    assert deviation(used(forgets, 8)) > 4
    assert not remembers.evictions


def test_who_had_everything_yesterday_is_not_equal_today() -> None:
    house = House(POLICY, 2, 2)
    house.active = ("one",)
    used(house, 6)
    house.active = tuple(WEIGHTS)
    first = deviation(lately(house))
    used(house, 1)  # what runs is not stopped
    parts = used(house, 1)
    assert parts["one"] * 7 < sum(parts.values()) // 4  # far less than its part, until that is made up for
    assert deviation(lately(house)) < first

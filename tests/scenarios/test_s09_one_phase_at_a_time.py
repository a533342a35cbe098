"""S-09: a workload is never in two phases that contradict each other, whatever evicts or recovers it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.lifecycle import HOLDING_PHASES, RULES, Phase
from steelyard.services.live import LiveState
from steelyard.store.database import sqlite_url
from tests.support.house import House

WHOLE = {"gpu": 4, "cpu": "1", "memory": "1Gi"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def check_phases(state: LiveState, before: dict[int, Phase]) -> None:
    """Each attempt is in one phase, reached from its last one in legal steps, and charged as that one is."""
    for attempt in state.by_workload.values():
        assert [phase for phase in Phase if attempt in state.in_phase(phase)] == [attempt.phase]
        charged = attempt.phase in HOLDING_PHASES or attempt.phase is Phase.RESERVED
        assert bool(attempt.charges) == charged, (attempt.phase, attempt.charges)
        was = before.get(attempt.attempt_id, attempt.phase)
        assert attempt.phase in reachable(was), f"{was} → {attempt.phase}"
        before[attempt.attempt_id] = attempt.phase


def reachable(phase: Phase) -> set[Phase]:
    """The phase, and whatever may follow from it."""
    found, fresh = {phase}, {phase}
    while fresh:
        fresh = {after for each in fresh for after in RULES[each].next} - found
        found |= fresh
    return found


@pytest.mark.requirement("C10")
def test_through_eviction_failure_hold_and_recovery_each_is_in_one_phase_and_charged_as_it_says(
    house: House,
) -> None:
    low = [house.submit(f"low-{n}", requests=WHOLE, expect={"run": "5s"}) for n in range(3)]
    house.submit("fails", requests={"cpu": "1"}, expect={"run": "50ms", "exit": "3"}, restart="on-failure")
    before: dict[int, Phase] = {}
    for number in range(250):
        if number == 20:
            house.submit("high", requests=WHOLE, expect={"run": "1s"}, priorityClass="high")
        if number == 30:
            house.hold(low[2])
        if number == 60:
            house.release(low[2])
        house.tick(step=50_000)
        assert house.loop.desk is not None
        check_phases(house.loop.desk.context.state, before)
    assert len(before) > 5  # some were tried anew

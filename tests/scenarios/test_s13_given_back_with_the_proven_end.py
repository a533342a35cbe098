"""S-13: quota is given back with the proven end, not before: what only stops is charged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.lifecycle import Phase
from steelyard.store.database import sqlite_url
from tests.support.house import DOCUMENTS, House

WHOLE = {"gpu": 4, "cpu": "1", "memory": "1Gi"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS)
    yield made
    made.close()


@pytest.mark.requirement("E2", "G10")
def test_a_victim_that_ignores_term_keeps_its_quota_until_its_end_is_proven(house: House) -> None:
    deaf = {"run": "600s", "ignore-term": "true"}
    low = [house.submit(f"low-{n}", requests=WHOLE, expect=deaf, grace="3s") for n in range(2)]
    house.run_until(lambda: all(house.phase(one) == "running" for one in low))
    high = house.submit("high", requests=WHOLE, expect={"run": "600s"}, priorityClass="high")
    house.run_until(lambda: house.phase(high) == "reserved")
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    asked = house.clock.at
    while house.phase(high) == "reserved":
        stopping = state.in_phase(Phase.STOPPING, Phase.RELEASING)
        assert state.usage["queue"]["main", "gpu"] == 12_000  # both that run, and what is kept for the third
        assert len(stopping) == 1
        assert sum(device.held for device in state.devices.values() if device.device_class == "gpu") == 8000
        house.tick(step=100_000)
    assert house.clock.at - asked >= 3_000_000
    victim = next(one for one in low if house.show(one)["attempt"] == 2)
    receipt = house.show(victim)["attempts"][0]["receipt"]
    assert receipt["state"] == "confirmed"
    placed = house.show(high)["attempts"][0]["times"]["placed"]
    assert placed >= receipt["confirmed_at"]
    assert state.usage["queue"]["main", "gpu"] == 8000
    for one in (*low, high):
        house.cancel(one)
    house.run_dry()

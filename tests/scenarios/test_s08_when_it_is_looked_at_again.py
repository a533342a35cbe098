"""S-08: when it was last looked at and what will wake it, which it then does; equal looks are counted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.explained import LONG, asks, fill, told
from tests.support.house import House

SECOND = 1_000_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("E5")
def test_the_event_that_was_told_wakes_it(house: House) -> None:
    _, other = fill(house)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    house.tick()
    answer = told(house, waits)
    assert house.clock.at - answer["last_evaluated_at"] < SECOND
    assert "workload-released" in answer["wakes_on"]
    house.cancel(other)
    house.run_until(lambda: house.phase(waits) in ("starting", "running"))


def test_what_is_found_again_and_again_is_one_row_with_a_count(house: House) -> None:
    fill(house)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    for _ in range(40):
        house.apply(f"kind: Team\nmetadata: {{name: t{house.clock.at % 10**9}}}\nspec: {{}}")
        house.tick(step=1_100_000)
    with house.store.read() as view:
        rows = [row for row in view.execute(t.shape_reason.select()) if row.t1 is None]
    assert len(rows) == 1
    assert rows[0].looks >= 16
    (entry,) = told(house, waits)["past"]
    assert entry["looks"] == rows[0].looks
    assert entry["until"] is None

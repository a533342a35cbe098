"""Learned run times over the life of a control plane: from what finished, kept, read again for the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.model.units import MINUTE, SECOND
from steelyard.services.live_load import load_state
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.versioned import older
from tests.service.control.test_replay import replay_all
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def finish(house: House, count: int, run: str, first: int = 0) -> None:
    """So many workloads run to their end, and it is time for a look at them."""
    for number in range(first, first + count):
        house.submit(f"w{number}", expect={"run": run})
    house.run_dry()
    house.clock.advance(31 * MINUTE)
    house.tick(3)


def instants(house: House) -> list[int]:
    with house.store.read() as view:
        return list(view.execute(select(t.run_times.c.at).order_by(t.run_times.c.at)).scalars())


def test_what_finished_is_learned_by_kind_and_bounds_what_says_nothing_itself(house: House) -> None:
    finish(house, 8, "2s")
    assert len(instants(house)) == 1
    for number in range(4):
        house.submit(f"long{number}", requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "30s"})
    gang = house.submit("gang", count=2, requests={"cpu": "1", "memory": "1Gi", "gpu": 4})
    house.tick(5)
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    learned = state.run_times.by_key["kind/training"]
    assert (learned.count, len(learned.sample)) == (8, 8)
    assert all(SECOND < took < 4 * SECOND for took in learned.sample)
    assert house.phase(gang) == "queued"
    house.run_dry()
    assert replay_all(house)["placements"] >= 3  # cycles


def test_the_same_is_not_stored_again_and_a_new_life_knows_it(house: House) -> None:
    finish(house, 6, "1s")
    house.clock.advance(31 * MINUTE)
    house.tick(3)
    (at,) = instants(house)
    with house.store.read() as view:
        state = load_state(view)
    assert state.run_times.version == at
    assert house.loop.desk is not None
    assert state.run_times == house.loop.desk.context.state.run_times


def test_old_ones_go_but_for_that_on_which_the_kept_cycles_rest(house: House) -> None:
    for number, run in enumerate(("1s", "3s", "5s")):
        finish(house, 6, run, first=100 * number)
    first, second, third = instants(house)
    with house.store.read() as view:
        assert older(view, t.run_times, third + 1, 10) == [{"at": first}, {"at": second}]
        assert older(view, t.run_times, third, 10) == [{"at": first}]
        assert older(view, t.run_times, first, 10) == []

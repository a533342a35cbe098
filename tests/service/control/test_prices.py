"""Price lists over the life of a control plane: made of what came, kept, and read again for the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.model.resources import DeviceClass
from steelyard.model.units import MINUTE, SECOND
from steelyard.scheduling.prices import PriceList
from steelyard.services.live_load import load_state
from steelyard.services.price_lists import read_body
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.versioned import older
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House
from tests.support.storms import Storm

POLICY = """
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {nodes: NodeValue, models: Advantage}
"""


@pytest.fixture
def valued(tmp_path: Path) -> Iterator[House]:
    """A house that chooses nodes by their value."""
    made = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS + POLICY)
    yield made
    made.close()


def lists(house: House) -> list[tuple[int, PriceList]]:
    """All that were made."""
    with house.store.read() as view:
        rows = view.execute(select(t.price_list).order_by(t.price_list.c.at)).all()
    return [(row.at, read_body(row.body_json)) for row in rows]


def come(house: House, count: int, gpu: str, first: int = 0) -> None:
    """So many short workloads with a part of a device, and time for a look at them."""
    for number in range(first, first + count):
        house.submit(f"w{number}", requests={"cpu": "2", "memory": "1Gi", "gpu": gpu}, expect={"run": "1s"})
    house.clock.advance(6 * MINUTE)
    for _ in range(6):
        house.loop.tick()
        house.clock.advance(SECOND)


def test_a_list_is_made_when_enough_has_come_and_again_when_the_mix_changes(valued: House) -> None:
    come(valued, 5, "0.5")
    assert lists(valued) == []
    come(valued, 20, "0.5", first=5)
    ((at, first),) = lists(valued)
    assert first[DeviceClass.GPU].fractions == ((500, 500_000, 2_000),)
    assert first[DeviceClass.GPU].version == at
    come(valued, 1, "0.5", first=25)
    assert len(lists(valued)) == 1
    come(valued, 20, "0.7", first=26)
    assert [size for size, _, _ in lists(valued)[-1][1][DeviceClass.GPU].fractions] == [500, 700]


def test_a_new_life_of_the_loop_knows_the_same_prices(valued: House) -> None:
    come(valued, 30, "0.5")
    with valued.store.read() as view:
        state = load_state(view)
    assert state.prices == valued.loop.desk.context.state.prices  # type: ignore[union-attr]
    assert state.prices


def test_cycles_are_decided_the_same_again_by_the_list_that_they_had(valued: House) -> None:
    for number, gpu in enumerate(("0.5", "0.7", "0.3")):
        come(valued, 25, gpu, first=100 * number)
    assert len(lists(valued)) == 3
    assert replay_all(valued)["placements"] > 3


def test_a_storm_is_decided_the_same_again(valued: House) -> None:
    come(valued, 25, "0.5", first=1000)
    Storm(valued, 1).run(30)
    assert replay_all(valued)["placements"] > 3


def test_old_lists_go_but_for_the_one_on_which_the_kept_cycles_rest(valued: House) -> None:
    for number, gpu in enumerate(("0.5", "0.7", "0.3")):
        come(valued, 25, gpu, first=100 * number)
    made = [at for at, _ in lists(valued)]
    with valued.store.read() as view:
        assert [row["at"] for row in older(view, t.price_list, made[-1] + 1, 100)] == made[:-1]

"""What has waited longer than its queue's bound says so, with numbers, once; what starts no longer does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import select

from steelyard.model.units import HOUR, MINUTE
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House

GPU = {"cpu": "1", "memory": "1Gi"}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A queue that starts whatever can ever fit within an hour, or says so."""
    bound = DOCUMENTS.replace("spec: {cohort: all,", "spec: {cohort: all, starvationBound: 1h,")
    made = House(sqlite_url(tmp_path), tmp_path, bound)
    yield made
    made.close()


def later(house: House, by: int) -> None:
    """Time goes by."""
    house.clock.advance(by)
    house.tick(3)


def leaves(house: House) -> list[dict]:
    """What was said of starvation."""
    with house.store.read() as view:
        bodies = view.execute(select(t.leaf.c.body).order_by(t.leaf.c.seq)).scalars()
        decoded = [msgspec.json.decode(bytes(body)) for body in bodies]
    return [leaf for leaf in decoded if leaf["action"] == "workload.starving"]


@pytest.mark.requirement("E1")
def test_what_waits_longer_than_the_bound_is_marked_once_until_it_starts(house: House) -> None:
    runs = house.submit("runs", requests={**GPU, "gpu": 4}, count=2, expect={"run": "2h"})
    house.run_until(lambda: house.phase(runs) == "running")
    waits = house.submit("waits", requests={**GPU, "gpu": 4}, expect={"run": "10m"})
    later(house, 59 * MINUTE)
    assert not leaves(house)
    later(house, 2 * MINUTE)
    later(house, 20 * MINUTE)
    (leaf,) = leaves(house)
    assert leaf["detail"]["bound"] == HOUR
    assert leaf["detail"]["waited"] > HOUR
    shown = house.show(waits)
    assert [reason["code"] for reason in shown["reasons"]][-1] == "starving"
    assert shown["reasons"][-1]["params"]["waited"] > 80 * MINUTE
    assert shown["reasons"][-1]["params"]["bound"] == HOUR
    later(house, HOUR)
    house.run_until(lambda: house.phase(waits) == "running")
    assert house.show(waits)["reasons"] == []
    assert len(leaves(house)) == 1
    replay_all(house)


def test_the_mark_survives_a_new_life_of_the_loop(house: House) -> None:
    runs = house.submit("runs", requests={**GPU, "gpu": 4}, count=2, expect={"run": "5h"})
    house.run_until(lambda: house.phase(runs) == "running")
    house.submit("waits", requests={**GPU, "gpu": 4})
    later(house, 61 * MINUTE)
    house.restart()
    later(house, MINUTE)
    later(house, MINUTE)
    assert len(leaves(house)) == 1

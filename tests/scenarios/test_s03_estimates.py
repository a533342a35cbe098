"""S-03: a start estimate is an interval whose coverage is measured."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.model.errors import NotFoundError
from steelyard.model.units import SECOND
from steelyard.services.estimates import covered, estimates_page
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House
from tests.support.worlds import ANN

WHOLE_NODE = {"cpu": "1", "memory": "1Gi", "gpu": 4}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def submit(house: House, name: str, run: str = "5s", **spec: Any) -> str:
    """One that takes a whole node; two run at once."""
    return house.submit(name, requests=WHOLE_NODE, expect={"run": run}, **spec)


def kept(house: House) -> list[Any]:
    """The estimates that were kept."""
    with house.store.read() as view:
        return list(view.execute(select(t.start_estimate).order_by(t.start_estimate.c.attempt_id)))


def test_the_first_estimate_of_what_waits_is_kept_and_held_against_its_start(house: House) -> None:
    for number in range(8):
        submit(house, f"w{number}", timeLimit="60s")
    house.tick(40, step=50_000)
    waited = kept(house)
    assert len(waited) == 6  # two started at once
    assert all(row.earliest <= row.latest for row in waited)
    house.run_dry()
    assert kept(house) == waited
    coverage = estimates_page(house.desk, ADMIN)["coverage"]
    assert (coverage["starts"], coverage["within"], coverage["percent"], coverage["open"]) == (6, 6, 100, 0)


def test_finished_runs_narrow_the_interval(house: House) -> None:
    for number in range(6):
        submit(house, f"w{number}", timeLimit="3600s")
    house.run_dry()
    for number in range(3):
        submit(house, f"v{number}", timeLimit="3600s")
    house.tick(4)
    (item,) = estimates_page(house.desk, ADMIN)["items"]
    assert (item["name"], item["why"]) == ("v2", None)
    now = house.clock.at
    assert now + 2 * SECOND < item["earliest"] <= item["latest"] < now + 8 * SECOND
    assert item["rests"]["finished-runs"] == 2


def test_where_nothing_is_known_the_interval_is_open_and_says_why(house: House) -> None:
    for number in range(3):
        submit(house, f"w{number}", run="60s")
    house.tick(4)
    (item,) = estimates_page(house.desk, ADMIN)["items"]
    assert (item["latest"], item["why"]) == (None, "ends-unknown")


def test_nobody_sees_estimates_of_others(house: House) -> None:
    ids = [submit(house, f"w{number}") for number in range(3)]
    house.tick(4)
    assert estimates_page(house.desk, ANN)["items"] == []
    with pytest.raises(NotFoundError):
        estimates_page(house.desk, ANN, ids[2])
    assert [item["id"] for item in estimates_page(house.desk, ADMIN, ids[2])["items"]] == [ids[2]]


def test_coverage_is_the_share_of_starts_within_a_whole_interval() -> None:
    def row(earliest: int | None, latest: int | None, placed: int) -> dict[str, int | None]:
        parts = {"earliest": earliest, "latest": latest, "placed": placed}
        return {key: None if value is None else value * SECOND for key, value in parts.items()}

    found = covered([row(10, 20, 15), row(10, 20, 21), row(10, 20, 30), row(10, None, 12), row(1, 2, 0)], 7)
    assert found == {"since": 7, "starts": 4, "within": 3, "percent": 75, "open": 1}
    assert covered([], 7)["percent"] is None

"""An elastic workload that runs with fewer members than it asked for is told why."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.units import MINUTE
from steelyard.services import workloads
from steelyard.store.database import sqlite_url
from tests.support.explained import LONG, MEMBER, asks, fill, told
from tests.support.house import ADMIN, House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def elastic(house: House, most: int, **more: object) -> str:
    """One to so many members of one device each."""
    role = {
        "name": "main", "command": ["train"], "count": most, "min": 1, "requests": asks(1), "expect": LONG,
        **more,
    }  # fmt: skip
    document = {
        "kind": "Workload",
        "metadata": {"name": "elastic", "namespace": "detect-dev"},
        "spec": {"kind": "training", "roles": [role]},
    }
    return str(workloads.submit(house.desk, ADMIN, document)["id"])


def test_what_keeps_the_other_members_away_is_told_with_its_holders(house: House) -> None:
    fill(house, 4, 2)
    number = elastic(house, 4)
    house.run_until(lambda: house.phase(number) == "running")
    answer = told(house, number, MEMBER)
    assert answer["decision"] == "running"
    assert answer["scaled"] == {"members": 2, "asked": 4, "joins": False, "joins_from": None}
    short = [reason for reason in answer["reasons"] if reason["short_by"]]
    assert [reason["short_by"] for reason in short] == [2000] * len(short)
    assert all(sum(holder["amount"] for holder in reason["holders"]) == 2000 for reason in short)


def test_with_all_members_there_is_nothing_to_tell(house: House) -> None:
    number = elastic(house, 2)
    house.run_until(lambda: house.phase(number) == "running")
    answer = told(house, number)
    assert (answer["scaled"], answer["reasons"]) == (None, [])


def test_one_that_takes_members_is_told_that_they_join_it(house: House) -> None:
    fill(house, 4, 2)
    number = elastic(house, 4, grow=True)
    house.run_until(lambda: house.phase(number) == "running")
    told_so = {"members": 2, "asked": 4, "joins": True, "joins_from": None}
    assert told(house, number)["scaled"] == told_so


def test_one_that_gave_up_members_is_told_from_when_on_others_join_it(house: House) -> None:
    number = elastic(house, 8, grow=True)
    house.run_until(lambda: house.phase(number) == "running")
    high = house.submit("high", priorityClass="high", count=2, requests=asks(1), expect={"run": "1s"})
    house.run_until(lambda: house.phase(high) == "finished")
    left = [one["leaving_at"] for one in house.show(number)["attempts"][0]["members"] if one["leaving_at"]]
    scaled = told(house, number)["scaled"]
    assert scaled == {"members": 6, "asked": 8, "joins": True, "joins_from": max(left) + 5 * MINUTE}

"""What the home page is made of, on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services.overview import overview
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House

MEMBER = Principal("us_1", "user", "bob", (Binding("bob", RoleName.MEMBER, "translate", 1),))
NOBODY = Principal("us_2", "user", "nob")


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    sqlite = request.param == "sqlite"
    made = House(sqlite_url(tmp_path) if sqlite else request.getfixturevalue("postgresql_database"), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("I2")
def test_it_counts_what_waits_runs_and_failed_within_what_the_reader_may_see(house: House) -> None:
    house.submit("secret-name", count=8, expect={"run": "1s"})
    broken = house.submit(
        "broken", requests={"cpu": "1"}, expect={"run": "10ms", "exit": "3"}, restart="never"
    )
    house.run_until(lambda: house.show(broken)["outcome"] == "failed")
    for number in range(3):
        house.submit(f"waits-{number}", count=2)
    house.submit("other", namespace="translate-dev")
    house.tick(3)
    everything = overview(house.store, ADMIN)
    assert (everything["live"]["running"], everything["live"]["queued"]) == (1, 4)
    assert sum(group["count"] for group in everything["waiting"]) == 4
    assert everything["waiting"][0]["reason"]["code"] == "waiting-for-quota"
    assert [row["name"] for row in everything["failed"]] == ["broken"]
    own = overview(house.store, MEMBER)
    assert own["live"] == {"queued": 1}
    assert own["failed"] == []
    assert "secret-name" not in str(own["waiting"])
    assert own["inventory"] is not None
    nothing = overview(house.store, NOBODY)
    assert (nothing["live"], nothing["waiting"], nothing["failed"], nothing["inventory"]) == (
        {},
        [],
        [],
        None,
    )
    house.run_dry()

"""CK1 to CK9 and the log on a real database: they hold through everything, and find each tampering."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select, update

from steelyard.model.errors import ForbiddenError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import SECOND
from steelyard.services.checks import run_checks
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url, writing
from tests.support.house import ADMIN, House

IDS = [*(f"CK{number}" for number in range(1, 10)), "log", "leaves", "state-leaf"]


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    if request.param == "sqlite":
        url = sqlite_url(tmp_path)
    else:
        url = request.getfixturevalue("postgresql_database")
    made = House(url, tmp_path)
    yield made
    made.close()


@pytest.fixture
def sqlite_house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def failing(house: House) -> dict[str, list[dict[str, Any]]]:
    answer = run_checks(house.store, ADMIN)
    assert [check["id"] for check in answer["checks"]] == IDS
    found = {check["id"]: check["findings"] for check in answer["checks"] if not check["ok"]}
    assert answer["ok"] is not bool(found)
    return found


@pytest.mark.requirement("L11", "K7")
def test_everything_holds_at_every_stage_of_a_busy_day(house: House) -> None:
    assert failing(house) == {}
    gpus = {"requests": {"gpu": 4, "cpu": "1", "memory": "1Gi"}, "expect": {"run": "600s"}}
    low = [house.submit(f"low-{n}", **gpus) for n in range(2)]
    house.run_until(lambda: all(house.phase(w) == "running" for w in low))
    house.clock.advance(10 * SECOND)
    house.tick()
    assert failing(house) == {}
    high = house.submit("high", priorityClass="high", **gpus)
    house.tick(3)
    assert house.phase(high) == "reserved"
    assert failing(house) == {}
    house.run_until(lambda: house.phase(high) == "running")
    assert failing(house) == {}
    house.submit("crash", expect={"run": "10ms", "exit": "3"})
    house.submit("other", namespace="translate-dev", requests={"gpu": 1}, expect={"run": "1s"})
    for workload in (*low, high):
        house.cancel(workload)
    house.run_dry()
    assert failing(house) == {}


def done(house: House) -> House:
    house.submit("one", expect={"run": "3s"})
    house.submit("two", namespace="translate-dev", expect={"run": "3s"})
    house.run_dry()
    house.clock.advance(10 * SECOND)
    house.tick()
    assert failing(house) == {}
    return house


def tamper(house: House, *statements: Any) -> None:
    house.tampered = True
    with writing(house.store.engine) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount > 0


FIRST_HOLDING = select(t.holding_segment.c.record_id).limit(1).scalar_subquery()
ONE_WORKLOAD = select(t.workload.c.id).limit(1).scalar_subquery()
TAMPERINGS = {
    "a holding is dropped": (
        delete(t.holding_segment).where(t.holding_segment.c.record_id == FIRST_HOLDING), {"CK1", "CK4", "CK8"}
    ),
    "a holding is longer": (update(t.holding_segment).values(t1=t.holding_segment.c.t1 + 1), {"CK1", "CK4"}),
    "an idle time is dropped": (delete(t.unheld_segment), {"CK1"}),
    "a team is another": (update(t.holding_segment).values(team="language"), {"CK5"}),
    "a wait is dropped": (delete(t.wait_slice), {"CK6"}),
    "a workload vanishes": (
        delete(t.workload).where(t.workload.c.id == ONE_WORKLOAD), {"CK7", "state-leaf"}
    ),
    "an end is forgotten": (update(t.allocation).values(t1=None), {"CK8"}),
    "a counter is another": (update(t.quota_usage).values(used=t.quota_usage.c.used + 1), {"CK9"}),
    "a version is another": (update(t.workload).values(version=t.workload.c.version + 1), {"state-leaf"}),
    "a leaf is edited": (update(t.leaf).where(t.leaf.c.seq == 3).values(body=b"{}"), {"log"}),
    "a leaf is dropped": (delete(t.leaf).where(t.leaf.c.seq == 5), {"log", "leaves"}),
    "a stream head is another": (update(t.stream_head).values(n=t.stream_head.c.n + 1), {"leaves"}),
    "the tail is cut": (
        delete(t.leaf).where(t.leaf.c.seq > 20), {"log", "leaves", "state-leaf"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERINGS)
def test_each_tampering_with_the_database_is_found(sqlite_house: House, name: str) -> None:
    house = done(sqlite_house)
    statement, wanted = TAMPERINGS[name]
    tamper(house, statement)
    assert set(failing(house)) >= wanted


def test_a_limit_that_was_exceeded_is_found_with_its_instants(sqlite_house: House) -> None:
    house = done(sqlite_house)
    tamper(house, update(t.quota_limit).where(t.quota_limit.c.node == "main").values(nominal=1))
    found = failing(house)["CK9"]
    assert {(f["code"], f["kind"], f["id"]) for f in found} >= {("over-limit", "queue", "all")}
    assert all(f["t0"] is not None for f in found if f["code"] == "over-limit")


def test_findings_name_devices_by_their_rendered_ids(sqlite_house: House) -> None:
    house = done(sqlite_house)
    tamper(house, delete(t.unheld_segment))
    assert all(f["id"].startswith("dv_") for f in failing(house)["CK1"])


def test_checks_are_for_auditors(sqlite_house: House) -> None:
    member = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    with pytest.raises(ForbiddenError):
        run_checks(sqlite_house.store, member)

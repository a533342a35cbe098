"""Usage of a window: it closes at every moment, is cut exactly, and each sees what it may see."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import ForbiddenError, InvalidError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.units import SECOND
from steelyard.services.usage import DIMENSIONS, report
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House

Json = dict[str, Any]


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    if request.param == "sqlite":
        url = sqlite_url(tmp_path)
    else:
        url = request.getfixturevalue("postgresql_database")
    made = House(url, tmp_path)
    yield made
    made.close()


def balance(answer: Json) -> dict[tuple[str, bool], int]:
    left: dict[tuple[str, bool], int] = defaultdict(int)
    for rows, field, sign in (
        ("capacity", "capacity_time", 1),
        ("unheld", "quantity_time", -1),
        ("rows", "held", -1),
    ):
        for row in answer[rows]:
            left[row["class"], row["simulated"]] += sign * int(row[field])
    return dict(left)


def checked(house: House, start: int | None = None, end: int | None = None) -> Json:
    answer = report(house.store, ADMIN, start, end, ("project", "kind", "class"))
    assert answer["closes"] is True
    assert set(balance(answer).values()) == {0}
    return answer


@pytest.mark.requirement("L23", "L12")
def test_usage_closes_while_work_runs_and_after_it_ended_in_any_window(house: House) -> None:
    began = house.clock.at
    first = house.submit("one", expect={"run": "30s"})
    house.submit("two", namespace="translate-dev", expect={"run": "5s"})
    house.run_until(lambda: house.phase(first) == "running")
    middle = house.clock.at
    open_answer = checked(house)
    assert {row["project"] for row in open_answer["rows"]} == {"detect", "translate"}
    assert all(set(row["by_state"]) <= {"starting", "running"} for row in open_answer["rows"])
    house.run_dry()
    end = house.clock.at
    whole = checked(house)
    parts = [checked(house, began, middle), checked(house, middle, end)]
    held = [sum(int(row["held"]) for row in answer["rows"]) for answer in parts]
    exact = sum(int(row["held"]) for row in checked(house, began, end)["rows"])
    assert sum(held) == exact
    assert whole["counts"] == {
        "submitted": 2, "refused": 0, "finished": {"succeeded": 2}, "live": 0
    }  # fmt: skip


@pytest.mark.requirement("L8", "L1")
def test_every_dimension_gives_the_same_total(house: House) -> None:
    house.submit("one", expect={"run": "3s"})
    house.submit("two", namespace="translate-dev", expect={"run": "600s"})
    house.tick(30)
    end = house.clock.at
    total = {
        name: sum(int(row["held"]) for row in report(house.store, ADMIN, None, end, (name, "class"))["rows"])
        for name in DIMENSIONS
    }
    assert len(set(total.values())) == 1
    assert total["pool"] > 0
    pools = {row["pool"] for row in report(house.store, ADMIN, None, end, ("pool",))["rows"]}
    assert pools <= {"accelerators", "cores"}


def test_a_wait_is_told_with_its_reason_also_while_it_lasts(house: House) -> None:
    for number in range(3):
        house.submit(f"w{number}", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, expect={"run": "600s"})
    house.tick(20, step=SECOND)
    waits = checked(house)["waits"]
    reasons = {row["reason"] for row in waits}
    assert reasons & {"quota", "capacity", "fragmentation"}
    assert sum(int(row["time"]) for row in waits) > 10 * SECOND


def test_a_member_sees_its_own_projects_and_nobody_without_a_project_sees_anything(house: House) -> None:
    house.submit("one", expect={"run": "3s"})
    house.submit("two", namespace="translate-dev", expect={"run": "3s"})
    house.run_dry()
    member = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    answer = report(house.store, member)
    assert {row["project"] for row in answer["rows"]} == {"detect"}
    assert {row["project"] for row in answer["waits"]} <= {"detect"}
    assert answer["counts"]["submitted"] == 1
    assert answer["closes"] is True
    with pytest.raises(ForbiddenError):
        report(house.store, Principal("us_2", "user", "nob"))


def test_what_is_no_window_and_no_dimension_is_refused(house: House) -> None:
    with pytest.raises(InvalidError, match="dimension-unknown"):
        report(house.store, ADMIN, by=("price",))
    with pytest.raises(InvalidError, match="window-invalid"):
        report(house.store, ADMIN, 20, 10)

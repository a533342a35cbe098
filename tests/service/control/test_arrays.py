"""Arrays: many like tasks, never more at a time than they may be, each with its number and its end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.control.attempts import ARRAY_INDEX, attempt_start
from steelyard.model.ids import parse
from steelyard.services import workloads
from steelyard.store.database import sqlite_url
from steelyard.store.workloads import WorkloadFilter
from tests.support.house import ADMIN, House

TASK: dict[str, Any] = {"kind": "batch", "requests": {"cpu": "1", "memory": "64Mi"}}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def group(house: House, array: str) -> dict[str, Any]:
    found: dict[str, Any] = house.show(array)["group"]
    return found


def tasks(house: House, array: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = house.show(array)["group_members"]
    return found


@pytest.mark.requirement("D9")
def test_every_task_runs_once_with_its_number_and_never_more_than_may(house: House) -> None:
    array = house.submit("sweep", **TASK, array={"completions": 7, "parallelism": 3})
    most = 0
    for _ in range(400):
        house.tick(step=50_000)
        most = max(most, len(house.live))
        if not house.live and group(house, array)["done"] == 7:
            break
    assert most == 3
    found = group(house, array)
    assert (found["done"], found["failed"], found["running"], found["completions"]) == (7, 0, 0, 7)
    assert [task["index"] for task in tasks(house, array)] == list(range(7))
    assert [task["name"] for task in tasks(house, array)][:2] == ["sweep", "sweep.1"]


def test_a_task_finds_its_number_in_its_environment(house: House) -> None:
    array = house.submit("sweep", **TASK, array={"completions": 2}, expect={"run": "60s"})
    house.run_until(lambda: group(house, array)["counts"].get("running") == 2)
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    numbers = set()
    for attempt in state.attempts.values():
        (cluster,) = attempt.clusters
        (member,) = attempt_start(state, "in", attempt, cluster).members
        numbers.add(dict(member.env)[ARRAY_INDEX])
    assert numbers == {"0", "1"}


def test_tasks_that_fail_are_counted_and_do_not_stop_the_others(house: House) -> None:
    array = house.submit(
        "sweep", **TASK, restart="never", expect={"run": "100ms", "exit": "3"},
        array={"completions": 4, "parallelism": 2},
    )  # fmt: skip
    house.run_until(lambda: group(house, array)["done"] == 4)
    assert group(house, array)["failed"] == 4


def test_cancelling_an_array_submits_nothing_more(house: House) -> None:
    array = house.submit(
        "sweep", **TASK, expect={"run": "60s"}, array={"completions": 100, "parallelism": 2}
    )
    house.run_until(lambda: group(house, array)["counts"].get("running") == 2)
    house.cancel(array)
    house.run_dry()
    house.tick(5)
    assert group(house, array)["counts"] == {"cancelled": 2}


def test_an_array_goes_on_after_a_restart(house: House) -> None:
    array = house.submit(
        "sweep", **TASK, expect={"run": "200ms"}, array={"completions": 6, "parallelism": 2}
    )
    house.run_until(lambda: group(house, array)["done"] >= 1)
    house.restart()
    house.run_until(lambda: group(house, array)["done"] == 6)
    assert len(tasks(house, array)) == 6


def test_lists_show_an_array_as_one_line(house: House) -> None:
    array = house.submit("sweep", **TASK, array={"completions": 5}, expect={"run": "60s"})
    house.run_until(lambda: group(house, array)["counts"].get("running") == 5)
    rows, _ = workloads.list_page(house.desk, ADMIN, WorkloadFilter())
    assert [row["id"] for row in rows] == [array]
    rows, _ = workloads.list_page(house.desk, ADMIN, WorkloadFilter(phase="running"))
    assert len(rows) == 5


def test_releasing_a_held_array_releases_all_its_tasks_and_those_to_come(house: House) -> None:
    array = house.submit("sweep", **TASK, hold=True, array={"completions": 5, "parallelism": 2})
    house.tick(5)
    assert [task["phase"] for task in tasks(house, array)] == ["held", "held"]
    workloads.release(house.desk, ADMIN, parse("workload", array))
    assert [task["phase"] for task in tasks(house, array)] == ["queued", "queued"]
    house.run_until(lambda: group(house, array)["done"] == 5)
    assert group(house, array)["counts"] == {"succeeded": 5}


def test_releasing_one_task_of_a_held_array_releases_that_one(house: House) -> None:
    array = house.submit("sweep", **TASK, hold=True, array={"completions": 3, "parallelism": 3})
    house.tick(5)
    workloads.release(house.desk, ADMIN, parse("workload", tasks(house, array)[1]["id"]))
    house.run_until(lambda: tasks(house, array)[1]["phase"] == "finished")
    assert [task["phase"] for task in tasks(house, array)] == ["held", "finished", "held"]
    workloads.release(house.desk, ADMIN, parse("workload", array))
    house.run_until(lambda: group(house, array)["done"] == 3)

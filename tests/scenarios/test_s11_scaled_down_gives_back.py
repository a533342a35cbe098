"""S-11: what is scaled down, and array tasks that failed, give back what they held."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.ids import parse
from steelyard.services.scaling import scale
from steelyard.store.database import sqlite_url
from steelyard.store.declared import usage_counters
from tests.support.house import ADMIN, House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def charged(house: House, node: str = "project/detect", tree: str = "organisation") -> int:
    with house.store.read() as view:
        return usage_counters(view).get((tree, node, "gpu"), 0)


def test_a_service_that_is_scaled_down_is_charged_for_what_is_left(house: House) -> None:
    service = house.submit(
        "api", kind="inference", requests={"gpu": 1, "cpu": 1, "memory": "1Gi"}, expect={"run": "600s"},
        replicas={"initial": 4, "max": 4},
    )  # fmt: skip
    house.run_until(lambda: charged(house) == 4000)
    scale(house.desk, ADMIN, parse("workload", service), 1)
    house.run_until(lambda: charged(house) == 1000)
    assert charged(house, "main", "queue") == 1000
    scale(house.desk, ADMIN, parse("workload", service), 3)
    house.run_until(lambda: charged(house) == 3000)


def test_array_tasks_that_failed_are_charged_no_more(house: House) -> None:
    array = house.submit(
        "sweep", kind="batch", restart="never", requests={"gpu": 2, "cpu": 1, "memory": "1Gi"},
        expect={"run": "100ms", "exit": "3"}, array={"completions": 5, "parallelism": 3},
    )  # fmt: skip
    most = 0
    for _ in range(600):
        house.tick(step=30_000)
        most = max(most, charged(house))
        if house.show(array)["group"]["failed"] == 5:
            break
    house.run_until(lambda: charged(house) == 0)
    assert house.show(array)["group"]["failed"] == 5
    assert most == 6000


def test_a_gang_that_gives_up_members_is_charged_for_what_is_left(house: House) -> None:
    whole = {"gpu": 1, "cpu": 1, "memory": "1Gi"}
    gang = house.submit("gang", requests=whole, expect={"run": "600s"}, count=8, min=2)
    house.run_until(lambda: charged(house) == 8000)
    higher = []
    for number in range(3):
        asked = {"requests": {**whole, "gpu": 2}, "expect": {"run": "600s"}, "priorityClass": "high"}
        higher.append(house.submit(f"high-{number}", **asked))
        house.run_until(lambda: house.phase(higher[-1]) == "running")
        assert charged(house) == charged(house, "main", "queue") == 8000
    for one in higher:
        house.cancel(one)
    house.run_until(lambda: charged(house) == 2000)
    assert charged(house, "main", "queue") == 2000
    assert (house.phase(gang), house.show(gang)["attempt"]) == ("running", 1)
    house.cancel(gang)
    house.run_until(lambda: charged(house) == 0)

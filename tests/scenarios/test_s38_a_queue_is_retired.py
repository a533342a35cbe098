"""S-38: a queue with work in it is stopped and retired: what runs ends, what waits is told, nothing hangs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.errors import ConflictError, RefusedError
from steelyard.services.declared import retire
from steelyard.services.queues import queue_page
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House

QUEUES = """
kind: Queue
metadata: {name: old}
spec: {cohort: all, owner: platform, STOPPED limits: [{class: gpu, nominal: 2}]}
---
kind: Routing
metadata: {name: default}
spec: {routes: [ROUTES{queue: main, priorityClass: normal}]}
"""


def queues(stopped: str = "", routes: str = "{kind: batch, queue: old, priorityClass: normal}, ") -> str:
    return QUEUES.replace("STOPPED ", stopped).replace("ROUTES", routes)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    made.apply(queues())
    yield made
    made.close()


def test_a_stopped_queue_lets_what_runs_end_and_is_then_retired(house: House) -> None:
    runs = house.submit("runs", kind="batch", expect={"run": "2s"})
    house.run_until(lambda: house.phase(runs) == "running")
    house.apply(queues("stopped: true, "))
    waits = house.submit("waits", kind="batch")
    house.tick(5)
    assert [reason["code"] for reason in house.show(waits)["reasons"]] == ["queue-stopped"]
    house.apply(queues("stopped: true, ", routes=""))  # nothing is led there any more
    with pytest.raises(ConflictError) as busy:
        retire(house.store, ADMIN, "Queue", "old")
    assert (busy.value.code, busy.value.params["by"]) == ("object-in-use", "2")
    with pytest.raises(RefusedError):
        house.submit("late", kind="batch", queue="old")
    house.cancel(waits)
    house.run_until(lambda: house.phase(runs) == "finished")
    house.run_dry()
    assert retire(house.store, ADMIN, "Queue", "old").action == "retired"
    house.tick(3)
    assert "old" not in {node["name"] for node in queue_page(house.store, ADMIN)}
    after = house.submit("after", kind="batch")
    house.run_until(lambda: house.phase(after) == "finished")


def test_a_queue_that_others_name_is_not_retired(house: House) -> None:
    with pytest.raises(ConflictError) as named:
        retire(house.store, ADMIN, "Queue", "old")
    assert (named.value.params["by_kind"], named.value.params["by"]) == ("Routing", "default")

"""What ended and what takes its place are one commit; what would be two leaves of one workload is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.model.units import SECOND
from steelyard.services.audit import leaves
from steelyard.services.cycles import replay_cycle
from steelyard.services.live_load import SnapshotSource
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.leaves import leaf_hash
from tests.support.frozen import FrozenHouse
from tests.support.house import ADMIN, DOCUMENTS, House

#: All there is.
EVERYTHING = {"gpu": 8, "cpu": "2", "memory": "2Gi"}
ONE_NODE = DOCUMENTS.replace("count: 2, prefix", "count: 1, prefix").replace("count: 4, m", "count: 8, m")


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house with one node of eight devices. Closing it checks its books."""
    made = House(sqlite_url(tmp_path), tmp_path, ONE_NODE)
    yield made
    made.close()


def newest(house: House, workload: str) -> tuple[str, int]:
    """(action, seq) of the newest leaf of a workload."""
    found = leaves(house.store, ADMIN, f"object/workload/{workload}")["items"][0]
    return found["action"], found["seq"]


def test_what_ended_and_what_takes_its_place_are_written_together(house: House) -> None:
    first = house.submit("first", requests=EVERYTHING)
    second = house.submit("second", requests=EVERYTHING)
    house.run_until(lambda: house.phase(first) == "releasing")
    while house.phase(second) == "queued":
        before = house.store.writer.commits
        house.tick()
    assert house.store.writer.commits == before + 1
    assert newest(house, first) == ("workload.finish", newest(house, second)[1] - 1)
    with house.store.read() as view:
        row = view.execute(select(t.cycle).order_by(t.cycle.c.id.desc())).first()
        assert row is not None
        assert row.log_size == newest(house, second)[1]
        assert bytes(row.last_hash) == leaf_hash(view, row.log_size - 1)
    assert replay_cycle(house.store, ADMIN, SnapshotSource(), row.id)["same"]


def test_others_may_write_between_what_the_loop_read_and_what_it_writes(house: House) -> None:
    first = house.submit("first", requests=EVERYTHING)
    second = house.submit("second", requests=EVERYTHING)
    house.run_until(lambda: house.phase(first) == "releasing")
    assert house.loop.desk is not None
    learning, late = house.loop.desk.learning, list[str]()
    run = learning.run

    def meanwhile() -> bool:  # after what ended is carried, before the cycle
        late.append(house.submit(f"late-{len(late)}", requests=EVERYTHING))
        return run()

    learning.run = meanwhile  # type: ignore[method-assign]
    while house.phase(second) == "queued":
        house.tick()
    with house.store.read() as view:
        row = view.execute(select(t.cycle).order_by(t.cycle.c.id.desc())).first()
    assert row is not None
    assert row.log_size < newest(house, second)[1] - 1
    assert replay_cycle(house.store, ADMIN, SnapshotSource(), row.id)["same"]
    learning.run = run  # type: ignore[method-assign]
    for workload in late:
        house.cancel(workload)
    house.run_dry()


def test_a_workload_that_ends_and_starts_again_at_once_has_two_commits(house: House) -> None:
    low = house.submit("low", requests=EVERYTHING, expect={"run": "1h"}, priorityClass="normal")
    house.run_until(lambda: house.phase(low) == "running")
    high = house.submit("high", requests=EVERYTHING, expect={"run": "1s"}, priorityClass="high")
    house.run_until(lambda: house.phase(low) == "stopping")
    house.cancel(high)
    house.run_until(lambda: len(house.show(low)["attempts"]) == 2 and house.phase(low) == "running")
    house.cancel(low)
    house.run_dry()
    with house.store.read() as view:
        cycles = view.execute(select(t.cycle.c.id)).scalars().all()
    assert all(replay_cycle(house.store, ADMIN, SnapshotSource(), one)["same"] for one in cycles)


def test_whose_stage_is_told_in_the_pass_that_evicts_it_has_two_commits(tmp_path: Path) -> None:
    frozen = FrozenHouse(sqlite_url(tmp_path), tmp_path, ONE_NODE)
    low = frozen.submit("low", requests=EVERYTHING, priorityClass="normal")
    frozen.run_until(lambda: frozen.phase(low) == "starting")
    frozen.stood_at = frozen.clock()
    frozen.submit("high", requests=EVERYTHING, priorityClass="high")
    frozen.tick(step=SECOND)
    assert frozen.phase(low) == "stopping"
    assert frozen.show(low)["attempts"][0]["sub_stage"] is not None
    frozen.thaw()
    frozen.run_dry()
    assert len(frozen.show(low)["attempts"]) == 2
    frozen.close()

"""S-37: a quota cut under running work is seen before it is made: what is over, who waits, who stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.model.lifecycle import Phase
from steelyard.services import what_if
from steelyard.services.live_load import SnapshotSource
from steelyard.services.policy_preview import policy_preview
from steelyard.store.database import sqlite_url
from tests.support.frozen import FrozenHouse
from tests.support.house import ADMIN

CUT = """
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "2", borrowingLimit: 0}]}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[FrozenHouse]:
    made = FrozenHouse(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def documents() -> list[Any]:
    """The cut, as documents."""
    return list(yaml.safe_load_all(CUT))


@pytest.mark.requirement("J9")
def test_what_the_cut_then_does_is_what_was_told(house: FrozenHouse) -> None:
    runs = house.submit("runs", requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "600s"})
    house.run_until(lambda: house.phase(runs) == "running")
    house.freeze()
    told = what_if.ask(house.desk, ADMIN, [{"documents": documents()}])
    before = house.phases()
    house.apply(CUT)
    house.decide()
    changed = {row["id"]: row["after"] for row in told["changed"]}
    stops = {name for name, phase in house.phases().items() if phase is Phase.STOPPING}
    assert stops == {name for name, after in changed.items() if after == "evicted"}
    assert house.phases().keys() == before.keys()
    house.thaw()


def test_what_runs_above_the_cut_and_who_would_have_waited_longer_is_told(house: FrozenHouse) -> None:
    for name in ("one", "two"):
        house.submit(name, requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "3s"})
        house.tick(3, step=50_000)
    middle = house.clock()
    house.submit("three", requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "3s"})
    house.run_dry()
    house.tick(3, step=4_000_000)
    found = policy_preview(house.store, ADMIN, SnapshotSource(), documents(), since=middle)
    (over,) = [row for row in found["over_quota"] if row["node"] == "main"]
    assert (over["used"], over["limit"], over["over"]) == (4000, 2000, 2000)
    assert [row["name"] for row in found["later"]["items"]] == ["three"]
    assert found["reproduced"] == {"starts": 1, "same": 1}

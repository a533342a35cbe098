"""What was declared takes effect, whenever the loop comes to know of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.store.database import sqlite_url
from tests.support.house import House

LATE_POOL = """
kind: Cluster
metadata: {name: late}
spec:
  engine: simulated
  simulation: {nodes: [{count: 1, prefix: l, cpu: "4", memory: 8Gi,
    devices: [{class: npu, family: ascend, model: X1, count: 2, memory: 32Gi}]}]}
"""
POOL = """
kind: Pool
metadata: {name: late}
spec:
  {cluster: late, purpose: training, owner: platform, flavors: [{name: x1, class: npu},
  {name: late-cpu, class: cpu}, {name: late-memory, class: memory}]}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A control plane with a third cluster that no pool is made of yet."""
    made = House(sqlite_url(tmp_path), tmp_path)
    made.apply(LATE_POOL)
    made.tick(3)
    yield made
    made.close()


def pools(house: House) -> set[str]:
    assert house.loop.desk is not None
    return {d.flavor for d in house.loop.desk.context.state.devices.values() if d.flavor is not None}


def test_a_pool_declared_while_nobody_followed_has_its_devices_after_the_next_start(house: House) -> None:
    house.restart()  # a server ends ...
    house.apply(POOL)  # ... right after it wrote this
    house.tick(2)
    assert "x1" in pools(house)
    workload = house.submit("npu", requests={"npu": 1, "cpu": "1", "memory": "1Gi"})
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"


def test_a_request_right_after_its_pool_was_declared_waits_instead_of_being_refused(house: House) -> None:
    house.apply(POOL)
    workload = house.submit("npu", requests={"npu": 1, "cpu": "1", "memory": "1Gi"})  # nobody followed yet
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"

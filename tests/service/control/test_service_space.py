"""The space of services under attack: higher priorities, queues that take back what they own, fair shares."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.store.database import sqlite_url
from tests.service.control.test_scaling import BATCH, GPUS, POLICY, SERVICE, group, others, running, scale
from tests.support.house import House

SECOND = 1_000_000
#: Owns what the service's queue does not, and is led to by work above the service's own priority.
URGENT = """
kind: PriorityClass
metadata: {name: urgent}
spec: {value: 1000}
---
kind: Queue
metadata: {name: urgent}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "4"}]}
---
kind: Routing
metadata: {name: default}
spec: {routes: [{kind: inference, queue: serve, priorityClass: high},
  {kind: training, queue: urgent, priorityClass: urgent}, {queue: main, priorityClass: normal}]}
"""
FAIR = """
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {order: FairShare}
"""


def attacked(folder: Path, fair: bool) -> House:
    """A house in which `main` owns nothing and `urgent` takes back what it does."""
    house = House(sqlite_url(folder), folder, POLICY)
    bare = '{cohort: all, owner: platform, limits: [{class: gpu, nominal: "0"}]}'
    house.apply(f"kind: Queue\nmetadata: {{name: main}}\nspec: {bare}\n---{URGENT}" + (FAIR if fair else ""))
    return house


def attack(house: House, count: int, gpus: int) -> None:
    house.submit(
        f"u{house.clock.at}", kind="training", grace="1s", count=count, expect={"run": "2s"},
        requests={"cpu": "1", "memory": "1Gi", "gpu": gpus},
    )  # fmt: skip


@pytest.mark.requirement("H1", "H7")
@pytest.mark.parametrize("fair", [False, True], ids=["by priority", "by fair share"])
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.tuples(st.sampled_from(["batch", "urgent", "scale"]), st.integers(0, 7)), max_size=10)
)
def test_no_offline_work_of_any_queue_or_priority_takes_what_is_guaranteed(
    tmp_path_factory: pytest.TempPathFactory, fair: bool, steps: list[tuple[str, int]]
) -> None:
    """Its replicas are preemptible, and yet the guaranteed ones are nobody's victims."""
    house = attacked(tmp_path_factory.mktemp("house"), fair)
    try:
        guaranteed: dict[str, Any] = {"initial": 1, "guaranteed": 2, "max": 3}
        service = house.submit("api", **SERVICE, preemptible=True, replicas=guaranteed)
        house.run_until(lambda: group(house, service)["replicas"]["kept"] == 1)
        for what, number in steps:
            if what == "batch":
                house.submit(f"b{house.clock.at}", **BATCH)
            elif what == "urgent":
                attack(house, 1 + number % 2, 1 + number % 4)
            else:
                scale(house, service, 1 + number % 3)
            for _ in range(1 + number):
                house.tick()
                assert others(house) <= GPUS - 4000
        first = house.show(service)
        assert (first["attempt"], first["evictions"], first["outcome"]) == (1, [], None)
    finally:
        house.close()


@pytest.mark.requirement("H2", "H7")
@pytest.mark.parametrize(
    ("checkpoint", "grace", "deaf"), [(None, 1, False), (None, 4, True), (3, 2, True)], ids=str
)
def test_lent_headroom_is_back_within_checkpoint_and_grace_and_a_release(
    tmp_path: Path, checkpoint: int | None, grace: int, deaf: bool
) -> None:
    """The stated bound, measured: what borrows it is told to save its work, then to end, then ended."""
    house = attacked(tmp_path, fair=False)
    lent: dict[str, Any] = {"initial": 1, "guaranteed": 2, "max": 2, "lend": True}
    service = house.submit("api", **SERVICE, replicas=lent)
    house.run_until(lambda: running(house, service) == 1)
    saves = {} if checkpoint is None else {"checkpoint": f"{checkpoint}s"}
    borrower = {**BATCH, "grace": f"{grace}s", "expect": {"run": "forever", "ignore-term": str(deaf).lower()}}
    batch = [house.submit(f"b{number}", **borrower, **saves) for number in range(8)]
    house.run_until(lambda: sum(house.phase(one) == "running" for one in batch) == 6)
    asked = house.clock.at
    scale(house, service, 2)
    house.run_until(lambda: running(house, service) == 2)
    took, bound = house.clock.at - asked, ((checkpoint or 0) + grace) * SECOND
    assert took < bound + SECOND
    if deaf:
        assert took >= bound
    evicted = [found for one in batch for found in house.show(one)["evictions"]]
    assert [found["rule"] for found in evicted] == ["guarantee"] * 2
    for one in (*batch, service):
        house.cancel(one)
    house.run_dry()
    house.close()


@pytest.mark.requirement("H7")
def test_a_higher_priority_of_its_own_queue_does_not_take_a_guaranteed_replica(tmp_path: Path) -> None:
    routes = "{kind: inference, queue: serve, priorityClass: high}"
    urgent = "kind: PriorityClass\nmetadata: {name: urgent}\nspec: {value: 1000}\n---\n"
    both = f"{routes}, {routes.replace('high', 'urgent')}"
    house = House(sqlite_url(tmp_path), tmp_path, urgent + POLICY.lstrip().replace(routes, both))
    guaranteed: dict[str, Any] = {"initial": 2, "guaranteed": 2, "max": 2}
    service = house.submit("api", **SERVICE, preemptible=True, replicas=guaranteed)
    house.run_until(lambda: running(house, service) == 2)
    batch = [house.submit(f"b{number}", **BATCH, preemptible=False) for number in range(4)]
    house.run_until(lambda: all(house.phase(one) == "running" for one in batch))
    more = {**SERVICE, "priorityClass": "urgent", "replicas": {"initial": 1}}
    other = house.submit("other", **more)
    house.tick(5, step=400_000)
    assert house.phase(other) == "queued"
    assert running(house, service) == 2
    for one in (service, other, *batch):
        house.cancel(one)
    house.run_dry()
    house.close()

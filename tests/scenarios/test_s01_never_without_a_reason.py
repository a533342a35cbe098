"""S-01: whatever waits has a reason within a cycle; a missing or stopped queue and a hold are reasons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard.scheduling import decide
from steelyard.store.database import sqlite_url
from tests.support.explained import asks, fill, told
from tests.support.house import House
from tests.unit.scheduling.build import NOW, POLICY, group, item, node, queue_tree, request, shape, snapshot
from tests.unit.scheduling.test_smallest import Case, cases

STOPPED = """
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, stopped: true, limits: [{class: gpu, nominal: "8"}]}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def code(house: House, workload_id: str) -> str:
    """The first reason that is stored, as a list of workloads shows it."""
    return str(house.show(workload_id)["reasons"][0]["code"])


def test_a_full_pool_a_hold_and_a_stopped_queue_are_reasons_after_one_tick(house: House) -> None:
    fill(house)
    waits = house.submit("waits", requests=asks(4))
    held = house.submit("held", hold=True)
    house.tick()
    assert code(house, waits) in ("waiting-for-capacity", "waiting-for-quota", "fragmented")
    assert code(house, held) == "held"
    house.apply(STOPPED)
    house.tick(times=3, step=1_100_000)
    stopped = house.submit("stopped")
    house.tick()
    assert code(house, stopped) == code(house, waits) == "queue-stopped"
    for each in (waits, held, stopped):
        assert told(house, each)["reasons"]
        assert told(house, each)["wakes_on"]


def test_a_queue_that_is_not_there_is_a_reason() -> None:
    lost = shape("lost", request(gpu=1000), queue="gone")
    base = snapshot([node(1, gpus=1)], group(lost, item(1)), queues=queue_tree({}))
    (reason,) = decide(base, POLICY, NOW).reasons["lost"].reasons
    assert (reason.code, reason.owner) == ("no-queue", "gone")


@given(cases())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_in_any_world_each_shape_that_waits_is_explained_in_its_first_cycle(case: Case) -> None:
    decisions = decide(case.snapshot, case.policy, NOW)
    after = case.snapshot.apply(decisions)
    for waiting in after.pending:
        eligible = any(max(head.not_before, head.eligible_at) <= NOW for head in waiting.heads)
        own = [decisions.workload_reasons.get(head.workload_id) for head in waiting.heads]
        assert all(own) if not eligible else decisions.reasons[waiting.shape.key].reasons

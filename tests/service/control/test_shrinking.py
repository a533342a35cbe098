"""An elastic gang in a whole control plane: it gives up members one by one, goes on, and the books add up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from steelyard.model.ids import parse
from steelyard.services import workloads
from steelyard.services.live_load import load_state
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import ADMIN, DOCUMENTS, House

GPUS = {"cpu": "1", "memory": "1Gi", "gpu": 1}
RESTS = """
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {growth: {stabilizationWindow: %s}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.fixture
def restless(tmp_path: Path) -> Iterator[House]:
    """Where gangs get members again as soon as nobody waits."""
    made = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS + RESTS % "0s")
    yield made
    made.close()


def gang(house: House, count: int = 8, least: int = 3, **role: Any) -> str:
    """So many members of which so many are enough; it runs for twenty seconds."""
    document = {
        "kind": "Workload",
        "metadata": {"name": "gang", "namespace": "detect-dev"},
        "spec": {
            "kind": "training",
            "roles": [{"name": "main", "command": ["train"], "count": count, "min": least, "requests": GPUS,
                       "expect": {"run": "20s"}, **role}],
        },
    }  # fmt: skip
    workload = str(workloads.submit(house.desk, ADMIN, document)["id"])
    house.run_until(lambda: house.phase(workload) == "running")
    return workload


def members(house: House, workload: str) -> list[tuple[int, bool]]:
    """(index, leaves) of those that are there."""
    attempt = house.live[parse("workload", workload)]
    return [(member.index, member.leaving_at is not None) for member in attempt.members]


def exact(house: House) -> None:
    """What is charged and held is what lives, in the loop and in the store."""
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    assert not state.recount()
    for device in state.devices.values():
        own = [a for attempt in state.attempts.values() for a in attempt.allocations()]
        assert device.held == sum(a.quantity for a in own if a.device_id == device.id)
    with house.store.read() as view:
        stored = load_state(view)
    for tree, usage in state.usage.items():
        assert stored.usage[tree] == {key: amount for key, amount in usage.items() if amount}
    assert dict(stored.snapshot().running) == dict(state.snapshot().running)


@pytest.mark.requirement("C9")
def test_members_leave_for_a_higher_priority_and_the_gang_goes_on_as_the_same_attempt(house: House) -> None:
    workload = gang(house)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
    house.tick()
    assert [index for index, leaves in members(house, workload) if leaves] == [6, 7]
    exact(house)
    house.run_until(lambda: house.phase(high) == "running")
    assert members(house, workload) == [(index, False) for index in range(6)]
    exact(house)
    shown = house.show(workload)
    assert (shown["phase"], len(shown["attempts"])) == ("running", 1)
    house.run_dry()
    assert house.show(workload)["outcome"] == house.show(high)["outcome"] == "succeeded"
    assert replay_all(house)["evictions"] == 1


def test_each_member_that_left_has_a_receipt_and_its_use_ends_there(house: House) -> None:
    workload = gang(house, 8, 7)
    house.submit("high", priorityClass="high", requests=GPUS)
    house.run_until(lambda: len(members(house, workload)) == 7)
    with house.store.read() as view:
        (row,) = view.execute(select(t.member).where(t.member.c.released_at.is_not(None))).all()
        receipt = view.execute(select(t.receipt).where(t.receipt.c.attempt_id == row.id)).one()
        open_rows = view.execute(
            select(t.allocation).where(t.allocation.c.member_id == row.id, t.allocation.c.t1.is_(None))
        ).all()
        h = t.holding_segment.c
        used = view.execute(select(t.holding_segment).where(h.end_reason == "preempted")).all()
    assert (row.idx, row.phase, receipt.state, open_rows) == (7, "ended", "confirmed", [])
    assert max(segment.t1 for segment in used) == row.released_at


def test_the_record_names_who_left_for_whom_and_with_how_many_it_goes_on(house: House) -> None:
    workload = gang(house)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
    house.run_until(lambda: house.phase(high) == "running")
    (made,) = house.show(workload)["evictions"]
    assert (made["preemptor"], made["rule"], made["goes_on_with"]) == (high, "within-queue", 6)
    assert [(one["role"], one["index"]) for one in made["members"]] == [("main", 7), ("main", 6)]
    assert made["quantity"]["gpu"] == 2000
    assert made["lost_time"] > 0
    assert made["attempt"] == house.show(workload)["attempts"][0]["id"]
    with house.store.read() as view:
        bodies = [msgspec.json.decode(row.body) for row in view.execute(select(t.leaf.c.body)).all()]
    actions = [body["action"] for body in bodies if body["action"].startswith("workload.shr")]
    assert actions == ["workload.shrink", "workload.shrunk", "workload.shrunk"]


def test_a_restart_in_between_changes_nothing(house: House) -> None:
    workload = gang(house)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
    house.tick()
    house.restart()
    house.run_until(lambda: house.phase(high) == "running")
    exact(house)
    assert members(house, workload) == [(index, False) for index in range(6)]
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"


def test_a_gang_that_is_cancelled_while_members_leave_ends_whole(house: House) -> None:
    workload = gang(house)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
    house.tick()
    house.cancel(workload)
    house.run_until(lambda: house.phase(high) == "running")
    house.run_dry()
    assert house.show(workload)["outcome"] == "cancelled"
    assert house.show(high)["outcome"] == "succeeded"


def test_a_gang_that_does_not_stand_it_is_stopped_as_a_whole(house: House) -> None:
    workload = gang(house, shrink=False)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
    house.run_until(lambda: house.phase(high) == "running")
    assert len(house.show(workload)["attempts"]) == 2


def test_a_member_whose_release_is_not_proven_is_kept_back_alone(tmp_path: Path) -> None:
    fault = "{fault: stuck-release, match: {name: gang, node: n-1}, count: 1}"
    stuck = DOCUMENTS.replace(
        "    timing: {provision: 10ms", f"    suffer: [{fault}]\n    timing: {{provision: 10ms", 1
    ).replace("  engine: simulated\n", "  engine: simulated\n  releaseWithin: 1s\n", 1)
    house = House(sqlite_url(tmp_path), tmp_path, stuck)
    try:
        workload = gang(house, 8, 3)
        house.submit("high", priorityClass="high", count=4, requests=GPUS)
        house.tick(200)
        assert house.phase(workload) == "running"
        with house.store.read() as view:
            kept = view.execute(select(t.unproven_release)).all()
        assert len(kept) == 1
        exact(house)
    finally:
        house.tampered = True
        house.close()


@pytest.mark.requirement("C9")
def test_members_join_a_gang_that_takes_them_once_nobody_waits(restless: House) -> None:
    house = restless
    workload = gang(house, 8, 3, grow=True)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS, expect={"run": "3s"})
    house.run_until(lambda: house.phase(high) == "running")
    house.tick(20)
    assert members(house, workload) == [(index, False) for index in range(6)]
    house.run_until(lambda: len(members(house, workload)) == 8)
    exact(house)
    attempt = house.live[parse("workload", workload)]
    house.run_until(lambda: all(member.phase == "running" for member in attempt.members))
    assert house.show(high)["phase"] == "finished"
    assert [member.index for member in attempt.members] == list(range(8))
    shown = house.show(workload)
    (one,) = shown["attempts"]
    assert len(one["members"]) == 10
    assert sum(member["joined_at"] is not None for member in one["members"]) == 2
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"
    found = replay_all(house)
    assert (found["evictions"], found["growths"]) == (1, 1)


def test_no_member_joins_while_somebody_waits_for_such_devices(restless: House) -> None:
    house = restless
    workload = gang(house, 8, 3, grow=True)
    high = house.submit("high", priorityClass="high", count=2, requests=GPUS, expect={"run": "2s"})
    house.run_until(lambda: house.phase(high) == "running")
    wide = house.submit("wide", requests={**GPUS, "gpu": 4}, preemptible=True)
    house.run_until(lambda: house.phase(high) == "finished")
    house.tick(20)
    assert (house.phase(wide), len(members(house, workload))) == ("queued", 6)
    house.cancel(wide)
    house.run_until(lambda: len(members(house, workload)) == 8)
    exact(house)


@pytest.mark.requirement("C9")
def test_a_gang_that_gave_up_members_gets_none_for_the_window_whoever_restarts_meanwhile(
    tmp_path: Path,
) -> None:
    house = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS + RESTS % "6s")
    try:
        workload = gang(house, 8, 3, grow=True)
        high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
        house.run_until(lambda: any(leaves for _, leaves in members(house, workload)))
        asked = house.live[parse("workload", workload)].shrunk_at
        assert asked is not None
        house.run_until(lambda: house.phase(high) == "finished")
        house.restart()
        house.tick(3)
        exact(house)
        assert house.live[parse("workload", workload)].shrunk_at == asked
        house.run_until(lambda: len(members(house, workload)) == 8)
        joined = [member.joined_at for member in house.live[parse("workload", workload)].members[6:]]
        assert all(at is not None and at >= asked + 6_000_000 for at in joined)
        house.run_dry()
        assert (replay_all(house)["growths"], house.show(workload)["outcome"]) == (1, "succeeded")
    finally:
        house.close()


def test_who_joined_is_known_after_a_restart_and_can_be_taken_again(restless: House) -> None:
    house = restless
    workload = gang(house, 8, 3, grow=True)
    for number in range(2):
        high = house.submit(f"high-{number}", priorityClass="high", count=2, requests=GPUS)
        house.run_until(lambda high=high: house.phase(high) == "finished")
        house.run_until(lambda: len(members(house, workload)) == 8)
        house.restart()
        house.tick(3)
        exact(house)
    house.run_dry()
    assert house.show(workload)["outcome"] == "succeeded"
    found = replay_all(house)
    assert (found["evictions"], found["growths"]) == (2, 2)


def test_one_that_can_not_start_is_let_go_and_the_others_go_on(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    try:
        workload = gang(house, 8, 3, grow=True)
        high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
        house.run_until(lambda: house.phase(high) == "running")
        fault = "suffer: [{fault: start-failure, match: {name: gang}, count: 1}]"
        house.apply(DOCUMENTS.split("---")[0].replace("    timing:", f"    {fault}\n    timing:"))
        house.run_until(lambda: house.phase(high) == "finished")
        house.tick(100)
        assert house.phase(workload) == "running"
        assert len(members(house, workload)) in (6, 7)
        assert len(house.show(workload)["attempts"]) == 1
        exact(house)
        house.run_dry()
        assert house.show(workload)["outcome"] == "succeeded"
    finally:
        house.close()


def test_members_that_leave_before_the_others_run_leave_its_stages_in_order(tmp_path: Path) -> None:
    slow = DOCUMENTS.replace("{provision: 10ms", "{provision: 2s", 1)
    slow = slow.replace("release: 10ms", "release: 1900ms", 1)
    house = House(sqlite_url(tmp_path), tmp_path, slow)
    try:
        workload = house.submit("gang", count=8, min=3, requests=GPUS, expect={"run": "2s"})
        house.run_until(lambda: house.phase(workload) == "starting")
        high = house.submit("high", priorityClass="high", count=2, requests=GPUS)
        house.run_until(lambda: house.phase(high) == "running", step=70_000)
        house.run_dry()
        times = house.show(workload)["attempts"][0]["times"]
        (made,) = house.show(workload)["evictions"]
        assert made["at"] < times["started"] <= times["ended"]
    finally:
        house.close()

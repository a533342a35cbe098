"""The chain on a virtual clock: request, queue, run, failure, release, usage."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from steelyard.store.database import sqlite_url
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A control plane with two simulated clusters."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("D1", "D13", "G4", "G7", "G10")
def test_a_workload_goes_the_whole_way_and_its_stages_tile(house: House) -> None:
    workload = house.submit("train")
    house.run_dry()
    page = house.show(workload)
    attempt = page["attempts"][-1]
    assert (page["phase"], page["outcome"]) == ("finished", "succeeded")
    assert attempt["receipt"]["state"] == "confirmed"
    assert attempt["receipt"]["signals"] == {"control": "ended", "ledger": "closed", "probe": "free"}
    spans = [(w["t0"], w["t1"]) for w in attempt["waits"]] + [(t["t0"], t["t1"]) for t in attempt["tiles"]]
    assert spans[0][0] == attempt["times"]["submitted"]
    assert spans[-1][1] == attempt["times"]["release_confirmed"]
    assert all(before[1] == after[0] for before, after in pairwise(spans))


@pytest.mark.requirement("E2", "E10", "E11", "D15")
def test_a_higher_priority_evicts_and_the_victim_is_requeued_with_its_first_submit_time(house: House) -> None:
    victim = house.submit("low", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, expect={"run": "600s"})
    other = house.submit("low-too", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, expect={"run": "600s"})
    house.run_until(lambda: house.phase(victim) == house.phase(other) == "running")
    submitted = house.show(other)["submitted_at"]
    high = house.submit("high", priorityClass="high", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    house.tick(2)
    assert house.phase(high) == "reserved"
    house.run_until(lambda: house.phase(high) == "running")
    evicted = [w for w in (victim, other) if house.show(w)["attempt"] == 2]
    assert len(evicted) == 1
    page = house.show(evicted[0])
    assert page["phase"] == "queued"
    assert page["submitted_at"] <= submitted
    assert page["attempts"][0]["outcome"] == "preempted"
    assert page["evictions"][0]["rule"] == "within-queue"
    house.cancel(victim)
    house.cancel(other)
    house.run_dry()


@pytest.mark.requirement("F10", "G3")
def test_cancelling_a_running_workload_stops_it_and_frees_its_devices(house: House) -> None:
    workload = house.submit("long", expect={"run": "3600s"})
    house.run_until(lambda: house.phase(workload) == "running")
    house.cancel(workload)
    house.run_dry()
    page = house.show(workload)
    verdict = page["verdict"]
    assert (page["outcome"], verdict["stage"], verdict["group"]) == ("cancelled", "cancelled", "none")
    assert page["attempts"][-1]["receipt"]["state"] == "confirmed"


@pytest.mark.requirement("F1", "F2", "F5", "F6")
def test_an_applications_own_exit_is_told_from_the_platforms_failures(house: House) -> None:
    workload = house.submit("crash", expect={"run": "10ms", "exit": "3"})
    house.run_dry()
    verdict = house.show(workload)["verdict"]
    assert (verdict["stage"], verdict["code"], verdict["group"]) == ("application", "exit-code", "business")
    assert (verdict["evidence"][0]["field"], verdict["evidence"][0]["value"]) == ("exit_code", 3)


def test_a_loop_that_dies_and_a_new_one_lose_nothing_and_start_nothing_twice(house: House) -> None:
    ids = [house.submit(f"w{n}", expect={"run": "300ms"}) for n in range(20)]
    for _ in range(60):
        house.tick(step=15_000)
        house.restart()
    house.run_dry()
    for workload in ids:
        page = house.show(workload)
        assert (page["outcome"], page["attempt"]) == ("succeeded", 1)


@pytest.mark.requirement("D13", "L5")
def test_what_was_held_by_its_owner_is_told_from_what_waited(house: House) -> None:
    full = house.submit(
        "full", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, count=2, expect={"run": "60s"}
    )
    workload = house.submit("later", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    house.tick(5)
    house.hold(workload)
    house.tick(5)
    house.release(workload)
    house.cancel(full)
    house.run_dry()
    waits = house.show(workload)["attempts"][-1]["waits"]
    assert [w["reason"] for w in waits if w["reason"] != "evaluation"] == ["quota", "held-by-user", "quota"]
    assert all(a["t1"] == b["t0"] for a, b in pairwise(waits))


def test_the_reasons_of_a_wait_outlive_the_loop_that_found_them(house: House) -> None:
    full = house.submit(
        "full", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, count=2, expect={"run": "60s"}
    )
    workload = house.submit("later")
    house.tick(5)
    house.restart()
    house.tick(5)
    house.cancel(full)
    house.run_dry()
    waits = house.show(workload)["attempts"][-1]["waits"]
    assert [w["reason"] for w in waits] in (["evaluation", "quota"], ["quota"])


@pytest.mark.requirement("L14")
def test_work_that_waits_for_gpus_does_not_make_another_pools_cpu_idle_for_a_rule(house: House) -> None:
    house.submit("full", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"}, count=2, expect={"run": "1s"})
    house.submit("waits")
    house.tick(5)
    assert house.loop.desk is not None
    context = house.loop.desk.context
    idle = {
        d.flavor: next(iter(context.meter.parts(d.id)))[0] for d in context.state.devices.values() if d.free
    }
    assert idle["sim-cpu"] == "idle.blocked"
    assert idle["other-cpu"] == "idle.schedulable"
    house.run_dry()

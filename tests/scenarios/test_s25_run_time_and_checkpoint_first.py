"""S-25: a minimum run time and the time for a checkpoint are kept before work is stopped for other work."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House

SECOND = 1_000_000
WHOLE = {"gpu": 4, "cpu": "1", "memory": "1Gi"}
HIGH = {"requests": WHOLE, "expect": {"run": "1s"}, "priorityClass": "high"}
RULED = DOCUMENTS.replace(
    "owner: platform, limits: [{class: gpu, nominal",
    "owner: platform, preemption: {minRuntime: 30s}, limits: [{class: gpu, nominal",
)


def house_of(folder: Path, documents: str = DOCUMENTS) -> House:
    return House(sqlite_url(folder), folder, documents)


def test_nobody_is_stopped_before_it_ran_as_long_as_its_queue_says(tmp_path: Path) -> None:
    house = house_of(tmp_path, RULED)
    low = [house.submit(f"low-{n}", requests=WHOLE, expect={"run": "600s"}) for n in range(2)]
    house.run_until(lambda: all(house.phase(one) == "running" for one in low))
    began = max(house.show(one)["attempts"][0]["times"]["placed"] for one in low)
    high = house.submit("high", **HIGH)
    house.run_until(lambda: house.phase(high) == "finished", step=500_000)
    (evicted,) = house.show(high)["evicted"]
    assert evicted["at"] >= began + 30 * SECOND
    assert replay_all(house)["evictions"] == 1
    for one in low:
        house.cancel(one)
    house.run_dry()
    house.close()


@pytest.mark.requirement("E2", "E10", "E11", "E7")
def test_a_victim_is_asked_to_save_its_work_first_and_goes_on_from_there(tmp_path: Path) -> None:
    house = house_of(tmp_path)
    saves = {"run": "60s", "checkpoint": "600s"}  # by itself it would write none in that time
    low = [
        house.submit(f"low-{n}", requests=WHOLE, expect=saves, checkpoint="5s", grace="1s") for n in range(2)
    ]
    house.run_until(lambda: all(house.phase(one) == "running" for one in low))
    house.clock.advance(20 * SECOND)
    high = house.submit("high", **HIGH)
    house.run_until(lambda: house.phase(high) == "finished")
    (made,) = house.show(high)["evicted"]
    victim = made["victim"]
    page = house.show(victim)
    (told,) = page["evictions"]
    times = page["attempts"][0]["times"]
    assert times["ended"] - times["stopping"] >= 5 * SECOND  # TERM came when the time for it was over
    assert 0 <= told["saved_at"] - told["at"] < SECOND
    assert told["lost_time"] == times["ended"] - told["saved_at"]
    assert (told["preemptor"], told["rule"], told["goes_to"]) == (high, "within-queue", "main")
    assert told["quantity"]["gpu"] == 4000
    assert told["next"] == page["attempts"][1]["id"]
    house.run_until(lambda: not house.live, step=500_000)
    page = house.show(victim)
    assert (page["outcome"], page["attempt"]) == ("succeeded", 2)
    again = page["attempts"][1]["times"]
    assert again["ended"] - again["started"] < 45 * SECOND  # twenty of its sixty seconds were saved
    assert page["submitted_at"] == page["attempts"][0]["times"]["submitted"]
    waited = [(each["t0"], each["t1"]) for attempt in page["attempts"] for each in attempt["waits"]]
    assert all(before[1] <= after[0] for before, after in pairwise(waited))
    with house.store.read() as view:
        row = view.execute(select(t.eviction)).one()
    assert (row.requested_json, row.preemptor_queue, row.queue) == (
        '{"cpu":1000,"gpu":4000,"memory":1024}', "main", "main",
    )  # fmt: skip
    house.close()

"""S-22: a queue's budget of evictions in an hour holds, over a restart too, and says when it goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.model.policy import PreemptionRule
from steelyard.scheduling import decide
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    ended,
    group,
    item,
    node,
    policy,
    request,
    shape,
    snapshot,
    started,
)

SECOND = 1_000_000
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND
BUDGET = 3
LIMITS = "limits: [{class: gpu, nominal"
RULED = DOCUMENTS.replace(LIMITS, f"preemption: {{maxEvictionsPerHour: 1}}, {LIMITS}")


def test_an_endless_stream_of_high_priorities_evicts_so_many_in_any_hour() -> None:
    low, high = shape("low", request(gpu=1000)), shape("high", request(gpu=1000), priority=9)
    under = policy(preemption=PreemptionRule(per_hour=BUDGET), observation_bound=10 * HOUR)
    base = started(snapshot([node(1, gpus=16)]), group(low, *(item(n) for n in range(1, 17))))
    evicted: list[int] = []
    for step in range(24):
        now = NOW + step * 10 * MINUTE
        base = replace(base, pending=(group(high, item(100 + step, now)),), last_looked={})
        decisions = decide(base, under, now)
        evicted += [now] * len(decisions.evictions)
        if not decisions.evictions:
            assert decisions.stats.next_at == evicted[-BUDGET] + HOUR
        base = check_answer(base, decisions)
        base = ended(base, *(e.attempt_id for e in decisions.evictions))
        base = replace(base, pending=())
        base = check_answer(base, decide(base, under, now))
    assert len(evicted) == 4 * BUDGET
    assert all(sum(at <= other < at + HOUR for other in evicted) <= BUDGET for at in evicted)


@pytest.mark.requirement("E8")
def test_the_budget_is_kept_over_a_restart_and_the_cycles_replay(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path, RULED)
    whole = {"gpu": 4, "cpu": "1", "memory": "1Gi"}
    low = [house.submit(f"low-{n}", requests=whole, expect={"run": "forever"}) for n in range(2)]
    house.run_until(lambda: all(house.phase(one) == "running" for one in low))
    high = {"requests": whole, "expect": {"run": "forever"}, "priorityClass": "high"}
    first = house.submit("first", **high)
    house.run_until(lambda: house.phase(first) == "running")
    second = house.submit("second", **high)
    house.tick(20, step=500_000)
    assert house.phase(second) == "queued"
    house.restart()
    house.tick(20, step=500_000)
    assert house.phase(second) == "queued"
    house.clock.advance(HOUR)
    house.run_until(lambda: house.phase(second) == "running")
    assert replay_all(house)["evictions"] == 2
    for one in (*low, first, second):
        house.cancel(one)
    house.run_dry()
    house.close()

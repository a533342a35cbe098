"""The queues' page says what each deserves, and what it uses in thousandths of that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.units import MINUTE
from steelyard.services.queues import queue_page
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House

TWO = DOCUMENTS.replace(
    'spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "8"}]}',
    'spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "4"}]}\n---\nkind: Queue\n'
    'metadata: {name: other}\nspec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "4"}]}',
)
PAST = """
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {order: FairShare, fairness: {halfLife: 10m, sampling: 1m}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two queues with four of eight devices each."""
    made = House(sqlite_url(tmp_path), tmp_path, TWO)
    yield made
    made.close()


def gpus(house: House, queue: str) -> dict[str, Any]:
    """What is said of a queue's accelerators."""
    node = next(node for node in queue_page(house.store, ADMIN) if node["name"] == queue)
    return next(limit for limit in node["limits"] if limit["subject"] == "gpu")


@pytest.mark.requirement("E3")
def test_a_queue_that_uses_what_another_does_not_want_uses_what_it_deserves(house: House) -> None:
    house.submit("wide", requests={"cpu": "1", "memory": "1Gi", "gpu": 3}, count=2, expect={"run": "1h"})
    house.submit("more", requests={"cpu": "1", "memory": "1Gi", "gpu": 4})
    house.tick(5)
    assert gpus(house, "main")["deserved"] == 8000
    assert gpus(house, "main")["fairness"] == 750
    assert gpus(house, "main")["used_lately"] is None
    assert (gpus(house, "other")["deserved"], gpus(house, "other")["fairness"]) == (0, None)


def test_where_the_past_counts_it_is_what_was_used_lately(house: House) -> None:
    house.apply(PAST)
    house.submit("wide", requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "1h"})
    house.tick(5)
    house.clock.advance(10 * MINUTE)
    house.tick(2)
    said = gpus(house, "main")
    assert said["deserved"] == 4000
    assert 1900 <= said["used_lately"] <= 2100
    assert said["fairness"] == said["used_lately"] * 1000 // 4000

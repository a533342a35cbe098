"""Two wants, each with a figure: the service stays up; what waits is seen to wait, how long and for what."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.reports.review import review
from steelyard.services.review import review_rows
from steelyard.store.database import sqlite_url
from tests.service.control.test_scaling import POLICY, SERVICE
from tests.support.house import ADMIN, House

SECOND = 1_000_000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, POLICY)
    yield made
    made.close()


def service(house: House, name: str) -> dict[str, Any]:
    found: dict[str, Any] = house.show(name)
    return found


@pytest.mark.requirement("H10")
def test_a_service_s_steadiness_and_training_s_wait_are_both_measured(house: House) -> None:
    name = house.submit("api", **SERVICE, replicas={"initial": 1, "guaranteed": 1, "max": 2})
    house.run_until(lambda: house.phase(name) == "running")
    for number in range(3):
        house.submit(f"train-{number}", requests={"cpu": "1", "gpu": 4}, expect={"run": "5s"})
    house.tick(60, step=SECOND // 2)
    replicas = service(house, name)["group"]["replicas"]
    assert (replicas["guaranteed"], replicas["used"], replicas["restoring"]) == (1, 1, 0)
    (attempt,) = service(house, name)["attempts"]
    held = sum(tile["t1"] - tile["t0"] for tile in attempt["tiles"])
    assert attempt["times"]["ready"] is not None
    assert held == house.clock.at - attempt["times"]["placed"], "it held its place without a gap"
    assert service(house, name)["evictions"] == []
    queueing = review(review_rows(house.store, ADMIN))["answers"]["queueing"]
    (training,) = [row for row in queueing["rows"] if row["kind"] == "training"]
    assert training["mean"] > SECOND
    assert training["waits"] >= 2
    assert training["reason"] in ("capacity", "quota")

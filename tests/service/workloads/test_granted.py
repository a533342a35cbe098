"""Parts of devices with memory, and partitions, on the whole way: granted, charged, shown, replayed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import InvalidError, RefusedError
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House

PARTS = DOCUMENTS.replace(
    "devices: [{class: gpu, family: nvidia, model: A100, count: 4, memory: 80Gi}]",
    "devices: [{class: gpu, family: nvidia, model: A100, count: 1, memory: 80Gi},"
    " {class: gpu, family: nvidia, model: A100, count: 1, memory: 80Gi,"
    " partitions: {count: 3, model: A100-2g, memory: 20Gi}}]",
).replace(
    "{name: a100, class: gpu}",
    "{name: a100, class: gpu, model: A100}, {name: part, class: gpu, model: A100-2g}",
)


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[House]:
    """Two nodes, each with a whole card and one that is divided in three."""
    made = House(sqlite_url(tmp_path), tmp_path, PARTS)
    yield made
    made.close()


def run(house: House, name: str, requests: dict[str, Any]) -> dict[str, Any]:
    """The only member of a workload that runs."""
    asked = {"cpu": "1", "memory": "1Gi", **requests}
    workload = house.submit(name, requests=asked, expect={"run": "1h"})
    house.run_until(lambda: house.phase(workload) == "running")
    member: dict[str, Any] = house.show(workload)["attempts"][-1]["members"][0]
    return member


def devices(member: dict[str, Any]) -> list[tuple[str, int, str]]:
    """(model, quantity, kind of share) of its accelerators."""
    held = [device for device in member["devices"] if device["class"] == "gpu"]
    return [(device["model"], device["quantity"], device["share_kind"]) for device in held]


@pytest.mark.requirement("B2")
def test_what_was_asked_for_stands_beside_what_was_granted(parts: House) -> None:
    member = run(parts, "wide", {"gpu": "0.2", "deviceMemory": "40Gi"})
    assert devices(member) == [("A100", 500, "time-sliced")]
    assert member["requested"]["gpu"] == 200
    assert parts.loop.desk.context.state.usage["queue"]["main", "gpu"] == 500  # type: ignore[union-attr]


@pytest.mark.requirement("B2")
def test_a_part_that_falls_on_a_partition_gets_all_of_it(parts: House) -> None:
    for number in range(2):
        run(parts, f"whole{number}", {"gpu": "1"})
    member = run(parts, "part", {"gpu": "0.3", "deviceMemory": "8Gi"})
    assert devices(member) == [("A100-2g", 1000, "partition")]
    assert member["requested"]["gpu"] == 300


def test_memory_within_the_share_changes_nothing(parts: House) -> None:
    member = run(parts, "small", {"gpu": "0.5", "deviceMemory": "40Gi"})
    assert devices(member) == [("A100", 500, "time-sliced")]


def test_every_cycle_that_granted_more_is_decided_the_same_again(parts: House) -> None:
    for number in range(5):
        run(parts, f"w{number}", {"gpu": "0.1", "deviceMemory": f"{4 * number + 8}Gi"})
    assert replay_all(parts)["placements"] == 5


def test_more_memory_than_any_device_has_is_refused(parts: House) -> None:
    with pytest.raises(RefusedError):
        parts.submit("huge", requests={"gpu": "0.5", "deviceMemory": "81Gi"})


def test_device_memory_is_asked_for_beside_a_device(parts: House) -> None:
    with pytest.raises(InvalidError):
        parts.submit("none", requests={"cpu": "1", "deviceMemory": "1Gi"})

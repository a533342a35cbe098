"""Shape 2: a closed class, a family beside it, parents that are not allocatable, provenance beside each
fact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.devices.catalogue import family_class, load_catalogue
from steelyard.model.errors import NotFoundError, RefusedError
from steelyard.model.resources import DeviceClass, Provenance
from steelyard.services.inventory import summary_page
from steelyard.services.usage import report
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House

_, *REST = DOCUMENTS.split("---")
CLUSTER = """
kind: Cluster
metadata: {name: sim}
spec:
  engine: simulated
  simulation:
    nodes:
    - {count: 1, prefix: n, cpu: "16", memory: 64Gi, devices: [
        {class: gpu, family: hygon-dcu, model: K100, count: 1, memory: 64Gi},
        {class: gpu, family: nvidia, model: A100, count: 1, memory: 80Gi,
         partitions: {count: 3, model: A100-2g, memory: 20Gi}}]}
    timing: {provision: 10ms, image: 10ms, environment: 10ms, launch: 10ms, stop: 10ms, release: 10ms}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house with a DCU, and with a card that is partitioned."""
    made = House(sqlite_url(tmp_path), tmp_path, "---".join([CLUSTER, *REST]))
    yield made
    made.close()


def _devices(house: House) -> list[dict[str, object]]:
    with house.store.read() as view:
        return [dict(row._mapping) for row in view.execute(select(t.device).order_by(t.device.c.id))]


def test_the_classes_are_five() -> None:
    assert [item.value for item in DeviceClass] == ["gpu", "npu", "cpu", "memory", "other"]


@pytest.mark.parametrize(
    ("family", "device_class"),
    [("nvidia", "gpu"), ("amd", "gpu"), ("hygon-dcu", "gpu"), ("ascend", "npu"), ("mlu", "npu")],
)
def test_the_family_says_which_kind_and_versioned_data_its_class(family: str, device_class: str) -> None:
    assert load_catalogue().version >= 1
    assert family_class(family) is DeviceClass(device_class)
    with pytest.raises(NotFoundError, match="family-unknown"):
        family_class("abacus")


@pytest.mark.requirement("B2")
def test_a_dcu_counts_as_a_gpu_in_quota_and_report_and_keeps_its_family(house: House) -> None:
    dcu = next(device for device in _devices(house) if device["family"] == "hygon-dcu")
    assert (dcu["class"], dcu["model"]) == ("gpu", "K100")
    workload = house.submit("train", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    house.run_until(lambda: house.phase(workload) == "running")
    with house.store.read() as view:
        query = select(t.allocation.c.device_id).where(t.allocation.c.device_class == "gpu")
        assert view.execute(query).scalar_one() == dcu["id"]
        used = t.quota_usage.c
        charged = select(used.used).where(used.node == "main", used.subject == "gpu")
        assert view.execute(charged).scalar_one() == 1000
    house.run_dry()
    end = house.clock()
    found = report(house.store, ADMIN, None, end, ("class",))
    assert {row["class"] for row in found["rows"]} == {"gpu", "cpu", "memory"}


def test_a_parent_with_children_is_not_itself_allocatable(house: House) -> None:
    rows = _devices(house)
    parent = next(row for row in rows if row["has_children"])
    children = [row for row in rows if row["parent_id"] == parent["id"]]
    assert (len(children), {row["model"] for row in children}) == (3, {"A100-2g"})
    gpu = next(
        row
        for row in summary_page(house.store, ADMIN)["classes"]
        if (row["class"], row["cluster"]) == ("gpu", "sim")
    )
    assert gpu["capacity"] == 4000, "one DCU and three parts; the parent is not counted beside its parts"
    ids = [
        house.submit(f"w{n}", requests={"gpu": 1, "cpu": "1", "memory": "1Gi"}, expect={"run": "60s"})
        for n in range(4)
    ]
    house.run_until(lambda: all(house.phase(workload) == "running" for workload in ids))
    with house.store.read() as view:
        held = set(
            view.execute(
                select(t.allocation.c.device_id).where(t.allocation.c.device_class == "gpu")
            ).scalars()
        )
    assert parent["id"] not in held
    assert {row["id"] for row in children} < held
    with pytest.raises(RefusedError):
        house.submit("five", requests={"gpu": 5, "cpu": "1", "memory": "1Gi"})
    for workload in ids:
        house.cancel(workload)
    house.run_dry()


def test_provenance_source_and_time_stand_beside_each_fact(house: House) -> None:
    with house.store.read() as view:
        facts = view.execute(select(t.device_fact)).all()
    devices = {device["id"] for device in _devices(house)}
    assert {fact.device_id for fact in facts} == devices
    keys = {fact.key for fact in facts}
    assert {"capacity", "family", "model", "memory"} <= keys
    assert {fact.provenance for fact in facts} == {Provenance.SIMULATED.value}
    assert all(fact.source and fact.at > 0 and fact.valid_to is None for fact in facts)
    assert not {"provenance", "source"} & set(t.device.c.keys())

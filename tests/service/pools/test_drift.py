"""What differs from what was declared closes a pool, and it opens when they agree or somebody says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.engines.port import Engine
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError
from steelyard.model.health import Health
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.pools import DriftOf
from steelyard.model.resources import DeviceClass, Fact, FoundDevice, FoundNode, Provenance
from steelyard.services import pools
from steelyard.services.cycles import replay_cycle
from steelyard.services.documents import parse_document
from steelyard.services.live_load import SnapshotSource
from steelyard.services.pool_drift import Drift, drift_of_node
from steelyard.services.pool_spec import PoolSpec
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.service.pools.conftest import explained, refusal, request_of
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import ADMIN, House
from tests.support.stores import doc

POOL = """
kind: Pool
metadata: {name: accelerators}
spec:
  cluster: sim
  environment: {driver: ["550", "560"]}
  members: {nodes: [n-0, n-1]}
  flavors: [{name: a100, class: gpu, family: nvidia, model: A100}, {name: sim-cpu, class: cpu},
    {name: sim-memory, class: memory}]
"""
VIEWER = Principal("us_0000000000001", "user", "vic", (Binding("vic", RoleName.VIEWER, "detect", 1),))
DRIVER = {"what": "driver", "where": "n-0/n-0/gpu-1", "declared": "driver 550, 560",
          "detected": "driver 535.3"}  # fmt: skip


@pytest.fixture
def found() -> Found:
    """What the engine of the cluster reports."""
    return Found()


@pytest.fixture
def house(tmp_path: Path, found: Found) -> Iterator[House]:
    """A control plane whose accelerators are as the test says."""

    def wrap(engine: Engine) -> Engine:
        return FoundEngine(engine, found)

    made = House(sqlite_url(tmp_path), tmp_path, wrap=wrap)
    made.apply(POOL)
    made.tick(3)
    yield made
    made.close()


def look(house: House) -> None:
    """The engines are asked what there is."""
    for agent in house.loop.agents.values():
        agent.look_again()
    house.tick(3)


def shown(house: House) -> dict[str, Any]:
    return pools.show(house.store, ADMIN, "accelerators")


@pytest.mark.requirement("C16", "B12")
def test_a_driver_that_is_not_the_declared_one_closes_the_pool_until_it_is(
    house: House, found: Found
) -> None:
    assert shown(house)["open"]
    found.drivers["n-0/gpu-1"] = "535.3"
    look(house)
    page = shown(house)
    assert (page["open"], page["closings"][0]["cause"]) == (False, "drift")
    assert page["closings"][0]["findings"] == [DRIVER]
    (reason,) = refusal(house, request_of())
    assert reason == {"code": "pool-closed", "pool": "accelerators", **DRIVER, "count": 1}
    found.drivers["n-0/gpu-1"] = "550.90"
    look(house)
    page = shown(house)
    assert (page["open"], page["closings"][0]["opened_by"]) == (True, "control")
    house.submit("again")
    house.run_dry()


def test_what_waits_for_a_closed_pool_says_so_and_starts_when_it_opens(house: House, found: Found) -> None:
    holders = [
        house.submit(f"h{index}", count=4, expect={"run": "300ms"},
                     requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
        for index in range(2)
    ]  # fmt: skip
    waits = house.submit("waits")
    house.tick(2)
    found.drivers["n-0/gpu-1"] = "535.3"
    look(house)
    house.run_until(lambda: all(house.phase(one) == "finished" for one in holders))
    house.tick(3)
    assert house.phase(waits) == "queued"
    assert explained(house, waits) == [{"code": "pool-closed", "pool": "accelerators", **DRIVER, "count": 1}]
    pools.open_again(house.store, ADMIN, "accelerators", "checked by hand")
    house.run_dry()
    assert house.show(waits)["outcome"] == "succeeded"


@pytest.mark.requirement("C16")
def test_a_drift_that_somebody_accepted_stays_open_until_it_becomes_another(
    house: House, found: Found
) -> None:
    found.drivers["n-0/gpu-1"] = "535.3"
    look(house)
    page = pools.open_again(house.store, ADMIN, "accelerators", "known, harmless")
    assert (page["open"], page["closings"][0]["open_reason"]) == (True, "known, harmless")
    house.restart()
    house.tick(3)
    look(house)
    assert shown(house)["open"]
    found.drivers["n-0/gpu-2"] = "535.3"
    look(house)
    assert not shown(house)["open"]


def test_an_operator_closes_and_opens_with_a_reason_and_both_are_in_the_log(house: House) -> None:
    with pytest.raises(InvalidError):
        pools.close(house.store, ADMIN, "accelerators", " ")
    with pytest.raises(ForbiddenError):
        pools.close(house.store, VIEWER, "accelerators", "x")
    page = pools.close(house.store, ADMIN, "accelerators", "new racks")
    assert (page["open"], page["shut_by"][0]["reason"]) == (False, "new racks")
    house.tick(2)
    (reason,) = refusal(house, request_of())
    assert (reason["code"], reason["reason"]) == ("pool-closed", "new racks")
    with pytest.raises(ConflictError):
        pools.close(house.store, ADMIN, "accelerators", "again")
    pools.open_again(house.store, ADMIN, "accelerators", "done")
    with pytest.raises(ConflictError):
        pools.open_again(house.store, ADMIN, "accelerators", "again")
    house.tick(2)
    house.submit("x")
    house.run_dry()
    assert pools.show(house.store, VIEWER, "accelerators")["open"]


def test_what_was_decided_while_a_pool_was_closed_is_decided_so_again(house: House) -> None:
    waits = house.submit("first", count=8, requests={"gpu": 1, "cpu": "1", "memory": "1Gi"})
    house.tick(2)
    late = house.submit("late")
    pools.close(house.store, ADMIN, "accelerators", "x")
    house.run_until(lambda: house.phase(waits) == "finished")
    house.tick(3)
    assert house.phase(late) == "queued"
    pools.open_again(house.store, ADMIN, "accelerators", "y")
    house.run_dry()
    replayed(house)


def replayed(house: House) -> None:
    """Every stored cycle decides the same again."""
    with house.store.read() as view:
        cycles = [row.id for row in view.execute(select(t.cycle.c.id).order_by(t.cycle.c.id))]
    assert cycles
    for cycle in cycles:
        answer = replay_cycle(house.store, ADMIN, SnapshotSource(), cycle)
        assert answer["same"], answer["differences"][:3]


@pytest.mark.requirement("B14")
def test_members_are_shown_as_declared_and_as_found(house: House, found: Found) -> None:
    assert shown(house)["members"] == {
        "declared": ["n-0", "n-1"], "actual": ["n-0", "n-1"], "equal": True, "missing": [], "extra": [],
    }  # fmt: skip
    house.apply(POOL.replace("[n-0, n-1]", "[n-0, n-9]"))
    house.tick(3)
    members = shown(house)["members"]
    assert (members["equal"], members["missing"], members["extra"]) == (False, ["n-9"], ["n-1"])
    assert shown(house)["closings"][0]["findings"] == [
        {"what": "node", "where": "n-1", "declared": "not a member", "detected": "member"}
    ]
    assert pools.show(house.store, ADMIN, "cores")["members"]["equal"] is None  # none are declared


@pytest.mark.requirement("C16")
def test_labels_models_and_classes_that_are_not_as_declared_close_the_pool_too(
    house: House, found: Found
) -> None:
    found.labels.update({"n-0": {"zone": "a"}, "n-1": {"zone": "a"}})
    look(house)
    house.apply(POOL.replace("cluster: sim", "cluster: sim\n  selector: {labels: {zone: a}}"))
    house.tick(3)
    assert shown(house)["open"]
    for change, back, expected in (
        (lambda: found.labels.update({"n-1": {"zone": "b"}}),
         lambda: found.labels.update({"n-1": {"zone": "a"}}),
         {"what": "label", "where": "n-1", "declared": "zone=a", "detected": "zone=b"}),
        (lambda: found.models.update({"n-0/gpu-0": "H100"}), found.models.clear,
         {"what": "model", "where": "n-0/n-0/gpu-0", "declared": "A100", "detected": "H100"}),
        (lambda: found.classes.update({"n-0/gpu-0": DeviceClass.OTHER}), found.classes.clear,
         {"what": "class", "where": "n-0/n-0/gpu-0", "declared": "gpu", "detected": "other"}),
    ):  # fmt: skip
        change()
        look(house)
        assert shown(house)["shut_by"][0]["findings"] == [expected]
        back()
        look(house)
        assert shown(house)["open"]


# --- the comparison itself -----------------------------------------------------------------------------
FLAVOR = {"name": "a", "class": "gpu", "model": "A100"}


def spec(**parts: Any) -> PoolSpec:
    found = parse_document(
        doc("Pool", "p", **{"cluster": "c", "flavors": [FLAVOR]} | parts)
    ).spec
    assert isinstance(found, PoolSpec)
    return found


def node(labels: dict[str, str] | None = None, **device: Any) -> FoundNode:
    one = {"uid": "u", "device_class": DeviceClass.GPU, "capacity": 1000, "family": "nvidia",
           "model": "A100", **device}  # fmt: skip
    return FoundNode("n", labels or {}, (FoundDevice(**one),))


@pytest.mark.parametrize(
    ("pool", "there", "expected"),
    [
        ({}, node(), []),
        ({}, node(model="H100"), []),  # a pool that claims no node has no say in what else is there
        ({"selector": {"labels": {"zone": "a"}}}, node({"zone": "a"}), []),
        (
            {"selector": {"labels": {"zone": "a"}}},
            node({"zone": "a"}, model="H100"),
            [Drift(DriftOf.MODEL, "n/u", "A100", "H100")],
        ),
        ({"selector": {"labels": {"zone": "a"}}}, node({"zone": "b"}, model="H100"), []),
        (
            {"selector": {"labels": {"zone": "a"}}, "members": {"nodes": ["n"]}},
            node({"zone": "b"}),
            [Drift(DriftOf.LABEL, "n", "zone=a", "zone=b")],
        ),
        (
            {"selector": {"labels": {"zone": "a"}}, "members": {"nodes": ["n"]}},
            node(),
            [Drift(DriftOf.LABEL, "n", "zone=a", None)],
        ),
        ({"members": {"nodes": []}}, node(), [Drift(DriftOf.NODE, "n", "not a member", "member")]),
        ({}, node(device_class=DeviceClass.OTHER), [Drift(DriftOf.CLASS, "n/u", "gpu", "other")]),
    ],
)
def test_what_differs_is_named_with_both_values(
    pool: dict[str, Any], there: FoundNode, expected: list[Drift]
) -> None:
    assert drift_of_node({"p": spec(**pool)}, there).get("p", []) == expected


@pytest.mark.parametrize(
    ("declared", "detected", "differs"),
    [("550", "550.54", False), ("550", "5500", True), ("550.54", "550.54", False), ("550", None, False)],
)
def test_a_driver_is_compared_by_its_family_and_only_where_it_is_known(
    declared: str, detected: str | None, differs: bool
) -> None:
    facts = {"driver": Fact(detected, Provenance.DETECTED, "nvidia-smi", 0)}
    found = drift_of_node({"p": spec(environment={"driver": declared})}, node(facts=facts))
    assert bool(found) is differs


@pytest.mark.parametrize("health", [Health.UNKNOWN, Health.MISSING])
def test_what_is_not_known_of_a_device_is_not_known_to_differ(health: Health) -> None:
    mine = spec(selector={"labels": {"zone": "a"}})
    assert drift_of_node({"p": mine}, node({"zone": "a"}, model="unknown", health=health)) == {}


def test_a_device_of_another_pool_on_the_same_nodes_is_no_drift() -> None:
    other = spec(flavors=[{"name": "b", "class": "gpu", "model": "H100"}], selector={"labels": {"zone": "a"}})
    mine = spec(selector={"labels": {"zone": "a"}})
    assert drift_of_node({"p": mine, "q": other}, node({"zone": "a"}, model="H100")) == {}

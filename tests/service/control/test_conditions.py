"""What is found of devices, and what it makes of what is offered. Each house is checked at its end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.model.health import DeviceHolder, Health, SignCode
from steelyard.model.organisation import Scope
from steelyard.model.resources import DeviceClass, Fact, FoundDevice, Provenance
from steelyard.services.device_page import show_device
from steelyard.services.inventory import list_nodes, summary_page
from steelyard.services.usage import report
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import ADMIN, House
from tests.support.shown import Shown, gone, held_by, ill, look, shown

CARD = "n-0/gpu-1"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, wrap=Shown)
    made.tick(3)
    try:
        yield made
        replay_all(made)
    finally:
        made.close()


def device(house: House, uid: str = CARD) -> dict[str, Any]:
    return show_device(house.store, ADMIN, f"sim/{uid}")


def sums(house: House, device_class: str = "gpu") -> dict[str, int]:
    found = summary_page(house.store, ADMIN)["classes"]
    (entry,) = [e for e in found if (e["class"], e["cluster"]) == (device_class, "sim")]
    return {k: v for k, v in entry.items() if isinstance(v, int) and not isinstance(v, bool) and v}


def state(house: House, uid: str = CARD) -> tuple[str, str | None, str | None]:
    found = device(house, uid)
    return found["state"], found["reason"], found["health"]


@pytest.mark.requirement("B23")
@pytest.mark.requirement("B9")
def test_a_device_that_is_not_found_stays_as_missing_and_the_capacity_with_it(house: House) -> None:
    shown(house).devices[CARD] = gone
    look(house)
    assert state(house) == ("unavailable", "missing", "missing")
    assert [sign["code"] for sign in device(house)["signs"]] == ["not-found"]
    assert sums(house) == {"capacity": 8000, "free": 7000, "unavailable": 1000}
    shown(house).devices.clear()
    look(house)
    assert state(house) == ("available", None, "healthy")
    history = device(house)["health_history"]
    assert [(h["health"], h["valid_to"] is None) for h in history] == [("missing", False)]


@pytest.mark.parametrize(
    ("health", "offered", "reason"),
    [
        (Health.DEGRADED, "available", None),
        (Health.UNHEALTHY, "unavailable", "unhealthy"),
        (Health.UNKNOWN, "unknown", "health-unknown"),
    ],
)
def test_health_decides_what_is_offered_and_its_signs_are_kept(
    house: House, health: Health, offered: str, reason: str | None
) -> None:
    shown(house).devices[CARD] = ill(health, SignCode.XID, "Xid 79: fallen off the bus")
    look(house)
    assert state(house) == (offered, reason, health)
    found = device(house)
    assert [(s["code"], s["source"]) for s in found["signs"]] == [("xid", "tool")]
    assert found["reason_text"] == ("Xid 79: fallen off the bus" if reason else None)
    house.loop.desk = None  # all that is kept in memory is loaded anew
    house.tick(2)
    assert state(house) == (offered, reason, health)


@pytest.mark.requirement("B24")
def test_a_device_with_a_process_that_nobody_owns_is_not_offered_until_it_is_gone(house: House) -> None:
    shown(house).devices[CARD] = held_by(DeviceHolder(4711, "python", 1024))
    look(house)
    assert state(house) == ("unavailable", "occupied-unowned", "healthy")
    found = device(house)
    assert found["reason_text"] == "python (4711)"
    assert [(p["pid"], p["memory"]) for p in found["processes"]] == [(4711, 1024)]
    assert sums(house)["capacity"] == 8000
    house.clock.advance(10_000_000)
    shown(house).devices.clear()
    look(house)
    assert state(house) == ("available", None, "healthy")
    (entry,) = report(house.store, ADMIN)["unattributed"]
    assert (entry["class"], entry["reason"]) == ("gpu", "external-to-platform")
    assert 10_000_000_000 <= int(entry["quantity_time"]) < 10_200_000_000
    last = device(house)["availability_history"][-1]
    assert (last["reason"], last["t1"] is not None) == ("occupied-unowned", True)


def test_a_stranger_on_a_device_that_we_hold_is_seen_when_we_give_it_back(house: House) -> None:
    work = house.submit("train", requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "5s"})
    house.run_until(lambda: house.phase(work) == "running")
    held = next(d for d in ("n-0/gpu-0", "n-1/gpu-0") if device(house, d)["state"] == "held")
    shown(house).devices[held] = held_by(DeviceHolder(1, "x"))
    look(house)
    assert state(house, held)[:2] == ("held", None)
    house.run_dry()
    look(house)
    assert state(house, held)[:2] == ("unavailable", "occupied-unowned")


@pytest.mark.requirement("B24")
def test_what_others_take_of_cores_and_memory_is_not_offered_and_no_less_capacity(house: House) -> None:
    shown(house).devices["n-0/cpu"] = held_by(DeviceHolder(9, "hog", cpu=5000))
    look(house)
    found = device(house, "n-0/cpu")
    assert (found["capacity"], found["free"], found["unavailable"]) == (16000, 11000, 5000)
    shown(house).devices["n-0/cpu"] = held_by(DeviceHolder(9, "hog", cpu=5300))
    look(house)
    assert device(house, "n-0/cpu")["free"] == 11000  # moved, and is the same
    house.submit("wide", requests={"cpu": "12", "memory": "1Gi"}, count=2)
    house.tick(3)
    with house.store.read() as view:
        held = view.execute(select(t.allocation.c.node_id, t.allocation.c.t1)).all()
    assert not held, "twelve cores are not to be had twice"
    shown(house).devices.clear()
    look(house)
    assert device(house, "n-0/cpu")["unavailable"] == 0
    house.run_dry()


def parts(parent: str, count: int) -> tuple[FoundDevice, ...]:
    fact = {"model": Fact("1g", Provenance.SIMULATED, "test", 1)}
    return tuple(
        FoundDevice(f"{parent}.{n}", DeviceClass.GPU, 1000, "nvidia", "1g", parent, facts=fact)
        for n in range(count)
    )


def test_a_device_that_is_divided_is_offered_by_its_parts_and_whole_again_after(house: House) -> None:
    shown(house).more["n-0"] = parts(CARD, 3)
    look(house)
    assert state(house) == ("unavailable", "partitioned", "healthy")
    assert sums(house) == {"capacity": 10000, "free": 10000}
    first = device(house, f"{CARD}.0")["id"]
    shown(house).more["n-0"] = parts(CARD, 2)
    look(house)
    assert state(house, f"{CARD}.2")[:2] == ("unavailable", "missing")
    shown(house).more.clear()
    look(house)
    assert state(house) == ("available", None, "healthy")
    assert sums(house) == {"capacity": 8000, "free": 8000}
    shown(house).more["n-0"] = parts(CARD, 1)
    look(house)
    assert device(house, f"{CARD}.0")["id"] != first
    assert sums(house) == {"capacity": 8000, "free": 8000}


def test_a_device_that_is_held_is_divided_when_it_is_given_back(house: House) -> None:
    wanted = {"cpu": "1", "memory": "1Gi", "gpu": 4}
    work = house.submit("train", requests=wanted, count=2, expect={"run": "5s"})
    house.run_until(lambda: house.phase(work) == "running")
    shown(house).more["n-0"] = parts(CARD, 2)
    look(house)
    assert (device(house)["held"], state(house)[:2]) == (1000, ("unavailable", "partitioned"))
    house.run_dry()
    look(house)
    assert state(house)[:2] == ("unavailable", "partitioned")
    assert sums(house) == {"capacity": 9000, "free": 9000}


@pytest.mark.requirement("B18")
def test_a_fact_that_changes_closes_the_old_one(house: House) -> None:
    def driver(version: str) -> Any:
        fact = Fact(version, Provenance.DETECTED, "nvidia-smi", 1)
        return lambda found: replace(found, facts={**found.facts, "driver": fact})

    for version in ("550.1", "550.1", "560.2"):
        shown(house).devices[CARD] = driver(version)
        look(house)
    facts = [fact for fact in device(house)["facts"] if fact["key"] == "driver"]
    assert [(f["value"], f["valid_to"] is None) for f in facts] == [("550.1", False), ("560.2", True)]
    assert facts[0]["valid_to"] == facts[1]["valid_from"]
    assert facts[0]["version"] < facts[1]["version"]


def test_a_fact_that_is_told_again_after_a_while_is_another_interval(house: House) -> None:
    lanes = {"lanes": Fact(16, Provenance.DETECTED, "pci bus", 1)}
    for told in (lanes, {}, lanes):
        shown(house).devices[CARD] = lambda found, told=told: replace(found, facts={**found.facts, **told})
        look(house)
    facts = [fact for fact in device(house)["facts"] if fact["key"] == "lanes"]
    assert [(f["value"], f["valid_to"] is None) for f in facts] == [(16, False), (16, True)]


def test_a_uid_that_another_node_has_is_refused_once(house: House) -> None:
    known = next(d for n in shown(house).inventory() for d in n.devices if d.uid == CARD)
    shown(house).more["n-1"] = (known, replace(known, uid=""), replace(known, uid="x", parent_uid="nobody"))
    look(house)
    look(house)
    with house.store.read() as view:
        rows = view.execute(select(t.registration).order_by(t.registration.c.id)).all()
    assert [(r.node, r.uid, r.outcome, r.reason) for r in rows] == [
        ("n-1", CARD, "duplicate", "uid-taken"),
        ("n-1", "", "refused", "uid-invalid"),
        ("n-1", "x", "refused", "parent-unknown"),
    ]
    assert sums(house)["capacity"] == 8000


def test_a_node_that_its_cluster_tells_of_no_more_is_lost_and_returns(house: House) -> None:
    shown(house).nodes["n-1"] = lambda _node: None
    look(house)
    assert sums(house) == {"capacity": 8000, "free": 4000, "unavailable": 4000}
    with house.store.read() as view:
        nodes, _ = list_nodes(view, Scope.system(), house.store.now(), cluster="sim")
    lost = next(node for node in nodes if node["name"] == "n-1")
    assert {(d["state"], d["reason"]) for d in lost["devices"]} == {("unavailable", "node-lost")}
    shown(house).nodes.clear()
    look(house)
    assert sums(house) == {"capacity": 8000, "free": 8000}

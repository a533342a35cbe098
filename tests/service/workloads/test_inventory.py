"""Inventory with live state: of each device and each class, capacity is the sum of its parts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.evidence.leaf import ActorRef
from steelyard.identity.authorise import scope
from steelyard.model.errors import InvalidError, NotFoundError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Scope, Verb
from steelyard.model.units import HOUR, SECOND
from steelyard.services.device_page import device_page, show_device
from steelyard.services.inventory import PARTS, list_nodes, summary
from steelyard.services.workloads import Desk, submit
from steelyard.store import tables as t
from steelyard.store.unit import Unit
from tests.support.stores import Clock
from tests.support.worlds import ANN, BOB, GPUS, workload

SYSTEM = Scope.system()


def devices(desk: Desk, device_class: str = "gpu") -> list[int]:
    with desk.store.read() as view:
        query = select(t.device.c.id).where(t.device.c.device_class == device_class).order_by(t.device.c.id)
        return [row.id for row in view.execute(query)]


def write(desk: Desk, table: Any, **row: Any) -> None:
    unit = Unit(ActorRef("control", "control"))
    unit.insert(table, **row)
    desk.store.writer.write(unit)


def change(desk: Desk, device_id: int, **values: Any) -> None:
    unit = Unit(ActorRef("control", "control"))
    unit.update(t.device, {"id": device_id}, **values)
    desk.store.writer.write(unit)


def hold(desk: Desk, device_id: int, quantity: int, *, of: str = "job") -> None:
    """A member of a fresh workload of ANN holds a part of a device."""
    number = parse("workload", submit(desk, ANN, workload(of))["id"])
    with desk.store.read() as view:
        attempt = view.execute(select(t.attempt.c.id).where(t.attempt.c.workload_id == number)).scalar_one()
    write(
        desk,
        t.allocation,
        id=desk.store.ids.next(),
        member_id=1,
        attempt_id=attempt,
        cluster="sim",
        node_id=1,
        device_id=device_id,
        flavor="card",
        device_class="gpu",
        dimension="device",
        quantity=quantity,
        share_kind="exclusive",
        t0=desk.store.now(),
        t1=None,
        org_version=1,
        policy_version=1,
        queue="main",
        quota_basis="nominal",
    )


def gpu_sums(desk: Desk, seen: Scope = SYSTEM) -> dict[str, Any]:
    with desk.store.read() as view:
        found = summary(view, seen, desk.store.now())
    (entry,) = [entry for entry in found["classes"] if entry["class"] == "gpu"]
    assert entry["capacity"] == sum(entry[part] for part in PARTS)
    return {part: entry[part] for part in PARTS if entry[part]}


@pytest.mark.requirement("B17")
def test_the_parts_of_a_class_sum_to_its_capacity_in_every_state(desk: Desk, clock: Clock) -> None:
    assert gpu_sums(desk) == {"free": 4000}
    first, second, third, fourth = devices(desk)
    hold(desk, first, 1000, of="whole")
    hold(desk, second, 250, of="part")
    assert gpu_sums(desk) == {"held": 1250, "free": 2750}
    write(desk, t.quarantine, device_id=third, attempt_id=9, quantity=400, reason="release-unconfirmed", t0=1)
    assert gpu_sums(desk) == {"held": 1250, "free": 2350, "unavailable": 400}
    kept = {"device_id": third, "quantity": 500}
    plan = json.dumps({"members": [{"allocations": [kept]}], "victims": [1]})
    write(desk, t.hold, attempt_id=77, at=1, plan_json=plan)
    assert gpu_sums(desk) == {"held": 1250, "free": 1850, "unavailable": 400, "reserved": 500}
    change(desk, fourth, availability="unavailable.unplanned", reason="missing")
    assert gpu_sums(desk) == {"held": 1250, "free": 850, "unavailable": 1400, "reserved": 500}
    change(desk, second, availability="unknown", reason="health-unknown")
    assert gpu_sums(desk) == {"held": 1250, "free": 100, "unavailable": 1400, "reserved": 500, "unknown": 750}
    clock.forward(HOUR)
    assert gpu_sums(desk) == {"held": 1250, "unknown": 2750}


def test_a_partitioned_device_is_counted_by_its_children(desk: Desk) -> None:
    change(desk, devices(desk)[0], has_children=True)
    assert gpu_sums(desk) == {"free": (GPUS - 1) * 1000}


def test_a_device_is_found_by_its_id_its_uid_and_its_cluster_with_uid(desk: Desk) -> None:
    first = show_device(desk.store, ANN, render("device", devices(desk)[0]))
    for name in (first["uid"], f"{first['cluster']}/{first['uid']}"):
        assert show_device(desk.store, ANN, name)["id"] == first["id"]
    for name in ("nothing", f"other/{first['uid']}", ""):
        with pytest.raises(NotFoundError):
            show_device(desk.store, ANN, name)


def test_a_uid_of_two_clusters_has_to_be_told_with_its_cluster(desk: Desk) -> None:
    first, second = (show_device(desk.store, ANN, render("device", number)) for number in devices(desk)[:2])
    change(desk, parse("device", second["id"]), cluster="other", uid=first["uid"])
    with pytest.raises(InvalidError) as caught:
        show_device(desk.store, ANN, first["uid"])
    assert caught.value.code == "device-ambiguous"
    assert caught.value.params["clusters"] == ", ".join(sorted((first["cluster"], "other")))
    assert show_device(desk.store, ANN, f"other/{first['uid']}")["id"] == second["id"]


@pytest.mark.requirement("B5", "A3", "B8")
def test_nodes_show_their_devices_with_cluster_class_state_and_marks(desk: Desk) -> None:
    hold(desk, devices(desk)[0], 1000)
    with desk.store.read() as view:
        nodes, cursor = list_nodes(view, SYSTEM, desk.store.now())
    assert cursor is None
    here, sim = sorted(nodes, key=lambda node: node["cluster"])
    assert (here["simulated"], sim["simulated"]) == (False, True)
    assert here["pools"] == ["cores"]
    cards = [device for device in sim["devices"] if device["class"] == "gpu"]
    assert [card["state"] for card in cards] == ["held", "available", "available", "available"]
    assert [card["requestable"] for card in cards] == [False, True, True, True]
    assert all(device["simulated"] for device in sim["devices"])
    assert {device["flavor"] for device in cards} == {"card"}


@pytest.mark.requirement("B9")
def test_what_is_not_available_always_says_why(desk: Desk, clock: Clock) -> None:
    first, second, third, _ = devices(desk)
    change(desk, first, availability="unavailable.planned", reason="maintenance")
    change(desk, second, has_children=True)
    write(
        desk, t.quarantine, device_id=third, attempt_id=9, quantity=1000, reason="release-unconfirmed", t0=1
    )
    for seconds in (0, 3600):
        clock.forward(seconds * SECOND)
        with desk.store.read() as view:
            nodes, _ = list_nodes(view, SYSTEM, desk.store.now())
        found = [device for node in nodes for device in node["devices"]]
        assert all(d["reason"] for d in found if d["state"] not in ("available", "held"))


def test_holders_are_named_to_those_who_may_know(desk: Desk) -> None:
    card = devices(desk)[0]
    hold(desk, card, 400)
    with desk.store.read() as view:
        mine = device_page(view, scope(ANN, Verb.VIEW, "inventory"), card, desk.store.now())
        theirs = device_page(view, scope(BOB, Verb.VIEW, "inventory"), card, desk.store.now())
    assert (mine["holders"][0]["name"], mine["holders"][0]["project"]) == ("job", "vision")
    assert theirs["holders"][0]["name"] is theirs["holders"][0]["workload"] is None
    assert theirs["held"] == mine["held"] == theirs["holders"][0]["quantity"] == 400


def test_nodes_are_chosen_by_cluster_class_and_pool_and_come_in_pages(desk: Desk) -> None:
    with desk.store.read() as view:
        now = desk.store.now()
        assert [n["cluster"] for n in list_nodes(view, SYSTEM, now, cluster="here")[0]] == ["here"]
        assert [n["cluster"] for n in list_nodes(view, SYSTEM, now, device_class="gpu")[0]] == ["sim"]
        assert [n["cluster"] for n in list_nodes(view, SYSTEM, now, pool="cores")[0]] == ["here"]
        first, cursor = list_nodes(view, SYSTEM, now, limit=1)
        second, _ = list_nodes(view, SYSTEM, now, limit=1, cursor=cursor)
        assert {node["name"] for node in (*first, *second)} == {"here-0", "sim-0"}


@pytest.mark.requirement("B18")
def test_a_device_page_tells_each_fact_with_its_provenance_and_its_history(desk: Desk) -> None:
    card = devices(desk)[0]
    for version, (value, valid_to) in enumerate([('"A100"', 5), ('"A100-80G"', None)], 1):
        write(
            desk,
            t.device_fact,
            device_id=card,
            key="model",
            value_json=value,
            provenance="simulated",
            source="engine",
            at=version,
            valid_from=version,
            valid_to=valid_to,
            version=version,
        )
    with desk.store.read() as view:
        page = device_page(view, SYSTEM, card, desk.store.now())
        with pytest.raises(NotFoundError):
            device_page(view, SYSTEM, 1, desk.store.now())
    assert page["provenance"] == "simulated"
    assert [fact["value"] for fact in page["facts"]] == ["A100", "A100-80G"]
    assert page["pools"][0]["pool"] == "cards"


def test_a_cluster_that_was_never_observed_is_unknown_not_unreachable(desk: Desk, clock: Clock) -> None:
    with desk.store.read() as view:
        found = summary(view, SYSTEM, desk.store.now())["clusters"]
        late = summary(view, SYSTEM, desk.store.now() + HOUR)["clusters"]
    assert [(c["name"], c["simulated"], c["reachable"]) for c in found] == [
        ("here", False, True),
        ("sim", True, True),
    ]
    assert [c["reachable"] for c in late] == [False, False]

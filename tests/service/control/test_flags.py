"""Flags on nodes and devices: what is flagged is not offered, and what runs there leaves where asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.evidence.leaf import ActorRef
from steelyard.model.errors import ConflictError, ForbiddenError, InvalidError, NotFoundError
from steelyard.model.ids import parse
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services.departures import departures
from steelyard.services.device_page import show_device
from steelyard.services.device_verify import verify
from steelyard.services.flags import Act, act
from steelyard.store import figures
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.unit import Unit
from tests.service.control.test_replay import replay_all
from tests.support.house import ADMIN, House

ANN = Principal("us_0000000000001", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
ILL = """
kind: Cluster
metadata: {{name: sim}}
spec:
  engine: simulated
  simulation:
    nodes:
    - {{count: 2, prefix: n, cpu: "16", memory: 64Gi,
       devices: [{{class: gpu, family: nvidia, model: A100, count: 4, memory: 80Gi}}]}}
    timing: {{provision: 10ms, image: 10ms, environment: 10ms, launch: 10ms, stop: 10ms, release: 10ms}}
    suffer:
    - {{fault: device-health, match: {{device: "{node}/gpu-0"}}, health: unhealthy, sign: xid, text: Xid 79}}
"""
TRAIN = {"cpu": "1", "memory": "1Gi", "gpu": 4}


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    made.tick(3)
    try:
        yield made
        replay_all(made)
    finally:
        made.close()


def flag(house: House, what: Act, name: str, reason: str = "because", **options: Any) -> dict[str, Any]:
    shown = act(house.store, ADMIN, what, name, reason, **options)
    house.tick(2)
    return shown


def device(house: House, uid: str) -> dict[str, Any]:
    return show_device(house.store, ADMIN, f"sim/{uid}")


def node_of(house: House, workload: str) -> str:
    members = house.show(workload)["attempts"][-1]["members"]
    return str(members[0]["node"])


@pytest.mark.requirement("B9")
def test_a_cordoned_device_is_not_offered_says_why_and_by_whom_and_comes_back(house: House) -> None:
    flag(house, Act.CORDON, "sim/n-0/gpu-0", "fan is loud")
    found = device(house, "n-0/gpu-0")
    why = "fan is loud"
    assert (found["state"], found["reason"], found["reason_text"]) == ("unavailable", "cordoned", why)
    (standing,) = found["flags"]
    assert (standing["flag"], standing["by"], standing["reason"]) == ("cordoned", ADMIN.id, "fan is loud")
    assert (found["requestable"], found["why_not"]) == (False, "cordoned")
    flag(house, Act.UNCORDON, "sim/n-0/gpu-0", "new fan")
    found = device(house, "n-0/gpu-0")
    assert (found["state"], found["flags"]) == ("available", [])
    (past,) = found["flag_history"]
    assert (past["lifted_by"], past["lift_reason"], past["until"] is not None) == (ADMIN.id, "new fan", True)


def test_a_cordoned_node_holds_all_its_devices_back_and_what_runs_there_goes_on(house: House) -> None:
    work = house.submit("train", requests=TRAIN, expect={"run": "30s"})
    house.run_until(lambda: house.phase(work) == "running")
    here = node_of(house, work)
    for node in ("n-0", "n-1"):
        flag(house, Act.CORDON, f"sim/{node}")
    assert device(house, f"{here}/cpu")["reason"] == "cordoned"
    with house.store.read() as view:
        counted = {(row.device_class, row.value): row.devices for row in figures.device_flags(view)}
    assert counted == {("gpu", "cordoned"): 8, ("cpu", "cordoned"): 2, ("memory", "cordoned"): 2}
    assert house.phase(work) == "running"
    more = house.submit("more", requests=TRAIN)
    house.tick(4)
    assert house.phase(more) == "queued"
    reason = next(r for r in house.show(more)["reasons"] if r["resource"] == "gpu")
    assert reason["code"] == "waiting-for-capacity"
    (holder,) = reason["holders"]
    assert (holder["kind"], holder["name"], holder["amount"]) == ("withheld", "cordoned", 4000)
    for node in ("n-0", "n-1"):
        flag(house, Act.UNCORDON, f"sim/{node}")
    house.run_dry()


def test_flags_are_for_those_who_manage_and_want_a_reason(house: House) -> None:
    with pytest.raises(ForbiddenError):
        act(house.store, ANN, Act.CORDON, "sim/n-0", "mine")
    for reason in (None, "  ", "x" * 501, "a\nb"):
        with pytest.raises(InvalidError):
            act(house.store, ADMIN, Act.CORDON, "sim/n-0", reason)
    with pytest.raises(NotFoundError):
        act(house.store, ADMIN, Act.CORDON, "sim/nowhere", "x")
    with pytest.raises(ConflictError) as caught:
        act(house.store, ADMIN, Act.UNCORDON, "sim/n-0", "x")
    assert caught.value.code == "not-flagged"
    flag(house, Act.CORDON, "sim/n-0")
    with pytest.raises(ConflictError) as caught:
        act(house.store, ADMIN, Act.UNCORDON, "sim/n-0/gpu-0", "x")
    assert caught.value.code == "flag-on-node"


def test_a_flag_that_stands_is_kept_and_another_kind_stands_beside_it(house: House) -> None:
    flag(house, Act.CORDON, "sim/n-0/gpu-0", "first")
    again = flag(house, Act.CORDON, "sim/n-0/gpu-0", "second")
    assert [f["reason"] for f in again["flags"]] == ["first"]
    flag(house, Act.MAINTENANCE, "sim/n-0/gpu-0", "new firmware")
    assert device(house, "n-0/gpu-0")["reason"] == "maintenance"
    flag(house, Act.UNCORDON, "sim/n-0/gpu-0")
    assert device(house, "n-0/gpu-0")["state"] == "available"


def test_a_drain_asks_what_runs_to_leave_and_it_goes_on_elsewhere(house: House) -> None:
    work = house.submit("train", requests=TRAIN, expect={"run": "30s"})
    house.run_until(lambda: house.phase(work) == "running")
    node = node_of(house, work)
    before = departures(house.store, ADMIN, f"sim/{node}")
    assert [(d["name"], d["leaves"]) for d in before["departures"]] == [("train", "now")]
    assert house.phase(work) == "running", "asking who would leave moves nobody"
    flag(house, Act.DRAIN, f"sim/{node}", "power work")
    house.run_until(lambda: house.show(work)["attempt"] == 2 and house.phase(work) == "running")
    assert node_of(house, work) != node
    first = house.show(work)["attempts"][0]
    assert (first["outcome"], first["verdict"]["code"]) == ("preempted", "drained")
    with house.store.read() as view:
        bodies = view.execute(select(t.leaf.c.body).where(t.leaf.c.action == "workload.drain")).scalars()
        assert [b"power work" in bytes(body) for body in bodies] == [True]
    flag(house, Act.UNCORDON, f"sim/{node}")
    house.run_dry()


def test_a_fence_takes_a_device_out_at_once_with_what_runs_on_it(house: House) -> None:
    work = house.submit("train", requests=TRAIN, count=2, expect={"run": "30s"})
    house.run_until(lambda: house.phase(work) == "running")
    flag(house, Act.FENCE, "sim/n-0/gpu-3", "smoke")
    house.run_until(lambda: house.phase(work) == "queued")
    assert device(house, "n-0/gpu-3")["reason"] == "fenced"
    assert device(house, "n-0/gpu-2")["state"] == "available"
    flag(house, Act.UNCORDON, "sim/n-0/gpu-3")
    house.run_until(lambda: house.phase(work) == "running")
    house.cancel(work)
    house.run_dry()


@pytest.mark.requirement("F1")
def test_a_failure_on_a_device_that_went_bad_is_laid_to_the_device(house: House) -> None:
    work = house.submit(
        "train", requests=TRAIN, expect={"run": "2s", "exit": 1}, restart="never",
    )  # fmt: skip
    house.run_until(lambda: house.phase(work) == "running")
    node = node_of(house, work)
    house.apply(ILL.format(node=node))
    for _ in range(3):
        house.tick(2)
        house.loop.agents["sim"].look_at_inventory()
    assert device(house, f"{node}/gpu-0")["health"] == "unhealthy"
    assert house.phase(work) == "running", "what runs is not ended for what a tool says"
    house.run_dry()
    verdict = house.show(work)["attempts"][-1]["verdict"]
    assert (verdict["code"], verdict["group"], verdict["retry"]) == (
        "device-unhealthy", "infrastructure", "retry-elsewhere",
    )  # fmt: skip
    assert verdict["detail"] == "Xid 79"
    told = {p["field"]: p["value"] for p in verdict["evidence"]}
    assert told["device_sign"] == "xid"
    with house.store.read() as view:
        actions = set(view.execute(select(t.leaf.c.action)).scalars())
    assert "workload.device" in actions


def test_a_cluster_may_declare_that_work_leaves_a_device_that_turns_bad(house: House) -> None:
    work = house.submit("train", requests=TRAIN, expect={"run": "30s"})
    house.run_until(lambda: house.phase(work) == "running")
    node = node_of(house, work)
    house.apply(ILL.format(node=node).replace("simulated\n", "simulated\n  onDeviceFailure: stop\n", 1))
    for _ in range(3):
        house.tick(2)
        house.loop.agents["sim"].look_at_inventory()
    house.run_until(lambda: house.show(work)["attempt"] == 2)
    first = house.show(work)["attempts"][0]
    assert (first["outcome"], first["verdict"]["code"]) == ("failed", "device-unhealthy")
    assert first["verdict"]["detail"] == "Xid 79"
    house.run_until(lambda: house.phase(work) == "running")
    assert node_of(house, work) != node
    house.cancel(work)
    house.run_dry()


def test_only_a_real_run_on_the_very_device_verifies_it(house: House) -> None:
    work = house.submit("train", requests={"cpu": "1", "memory": "1Gi", "gpu": 1}, expect={"run": "10ms"})
    house.run_dry()
    (used,) = [
        d["uid"] for d in house.show(work)["attempts"][0]["members"][0]["devices"] if d["class"] == "gpu"
    ]
    other = next(uid for uid in ("n-0/gpu-2", "n-0/gpu-3") if uid != used)
    for uid, code in ((other, "verification-other-device"), (used, "verification-simulated")):
        with pytest.raises(ConflictError) as caught:
            verify(house.store, ADMIN, f"sim/{uid}", work)
        assert caught.value.code == code
    with pytest.raises(ForbiddenError):
        verify(house.store, ANN, f"sim/{used}", work)


SERVICE: dict[str, Any] = {
    "kind": "inference", "expect": {"run": "forever", "ready-after": "50ms"}, "grace": "1s",
    "requests": {"cpu": "1", "memory": "1Gi", "gpu": 1},
}  # fmt: skip


def ready(house: House) -> int:
    running = [a for a in house.live.values() if a.phase == "running" and a.stop_reason is None]
    return sum(1 for a in running if a.times.get("ready"))


@pytest.mark.requirement("H2")
def test_a_service_moves_without_going_under_its_guarantee(house: House) -> None:
    service = house.submit("api", **SERVICE, replicas={"initial": 2, "guaranteed": 2, "max": 4})
    house.run_until(lambda: ready(house) == 2)
    node = node_of(house, service)
    asked = departures(house.store, ADMIN, f"sim/{node}")["departures"]
    assert {entry["leaves"] for entry in asked} == {"after-replacement"}
    act(house.store, ADMIN, Act.DRAIN, f"sim/{node}", "power work")
    least = 2

    def moved() -> bool:
        nonlocal least
        least = min(least, ready(house))
        here = [m for a in house.live.values() for m in a.members if m.node == node]
        return not here and ready(house) == 2 == len(house.live)

    house.run_until(moved)
    assert least == 2
    house.cancel(service)
    house.run_dry()


def test_a_device_that_an_older_version_fenced_gets_its_flag(house: House) -> None:
    unit = Unit(ActorRef("control", "control"))
    number = parse("device", device(house, "n-0/gpu-0")["id"])
    unit.update(t.device, {"id": number}, availability="unavailable.unplanned", reason="fenced")
    house.store.writer.write(unit)
    house.loop.desk = None
    house.tick(3)
    found = device(house, "n-0/gpu-0")
    assert (found["reason"], [flag["flag"] for flag in found["flags"]]) == ("fenced", ["quarantined"])
    flag(house, Act.UNCORDON, "sim/n-0/gpu-0")
    house.loop.agents["sim"].look_at_inventory()
    house.tick(2)
    assert device(house, "n-0/gpu-0")["state"] == "available"


def test_the_database_keeps_no_unavailable_device_without_a_reason(house: House) -> None:
    number = parse("device", device(house, "n-0/gpu-0")["id"])
    for availability, reason in (("unavailable.unplanned", None), ("available", "cordoned")):
        unit = Unit(ActorRef("control", "control"))
        unit.update(t.device, {"id": number}, availability=availability, reason=reason)
        with pytest.raises(ConflictError):
            house.store.writer.write(unit)


# --- an elastic gang on a place that is drained -----------------------------------------------------------
def gang(house: House, least: int) -> str:
    """Two members of two devices on each of two nodes: 0 and 1 on the first, 2 and 3 on the second."""
    work = house.submit(
        "gang", count=4, min=least, requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "20s"}
    )
    house.run_until(lambda: house.phase(work) == "running")
    return work


def there(house: House, work: str) -> dict[int, tuple[str, str]]:
    """Index → (node, phase) of the newest attempt's members."""
    members = house.show(work)["attempts"][-1]["members"]
    return {one["index"]: (one["node"], one["phase"]) for one in members}


def test_a_drain_takes_only_the_members_on_the_place_where_the_gang_goes_on_without_them(
    house: House,
) -> None:
    work = gang(house, 2)
    node = there(house, work)[3][0]
    assert [there(house, work)[index][0] == node for index in range(4)] == [False, False, True, True]
    (told,) = departures(house.store, ADMIN, f"sim/{node}")["departures"]
    assert (told["leaves"], told["goes_on_with"]) == ("members", 2)
    assert told["members"] == [{"role": "main", "index": 3}, {"role": "main", "index": 2}]
    flag(house, Act.DRAIN, f"sim/{node}", "power work")
    house.run_until(lambda: [phase for _, phase in there(house, work).values()].count("left") == 2)
    house.tick(5)
    assert (house.phase(work), house.show(work)["attempt"]) == ("running", 1)
    assert [there(house, work)[index][1] for index in range(4)] == ["running", "running", "left", "left"]
    with house.store.read() as view:
        bodies = view.execute(select(t.leaf.c.body).where(t.leaf.c.action == "workload.shrink")).scalars()
        assert [b"power work" in bytes(body) for body in bodies] == [True]
    flag(house, Act.UNCORDON, f"sim/{node}")
    house.run_dry()
    replay_all(house)


def test_a_drain_stops_a_gang_that_needs_the_members_on_the_place(house: House) -> None:
    work = gang(house, 3)
    node = there(house, work)[3][0]
    (told,) = departures(house.store, ADMIN, f"sim/{node}")["departures"]
    assert (told["leaves"], told["members"]) == ("now", None)
    flag(house, Act.DRAIN, f"sim/{node}", "power work")
    house.run_until(lambda: house.show(work)["attempt"] == 2)
    flag(house, Act.UNCORDON, f"sim/{node}")
    house.run_dry()

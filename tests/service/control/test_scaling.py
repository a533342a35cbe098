"""Services scale while they run, and what they are guaranteed is never taken by offline work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from steelyard.model.errors import ConflictError, InvalidError, RefusedError
from steelyard.model.ids import parse
from steelyard.services import scaling, workloads
from steelyard.services.cycles import replay_cycle
from steelyard.services.live_load import SnapshotSource
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, DOCUMENTS, House

SERVICE: dict[str, Any] = {
    "kind": "inference", "queue": "serve", "expect": {"run": "forever", "ready-after": "10ms"},
    "requests": {"cpu": "1", "memory": "1Gi", "gpu": 2}, "grace": "1s",
}  # fmt: skip
BATCH: dict[str, Any] = {"kind": "batch", "queue": "main", "expect": {"run": "forever"}, "grace": "1s"}
POLICY = DOCUMENTS.replace(
    'spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "8"}]}',
    """spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "4"}]}
---
kind: Queue
metadata: {name: serve}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "4"}]}""",
).replace(
    "{routes: [{queue: main, priorityClass: normal}, {queue: main, priorityClass: high}]}",
    "{routes: [{kind: inference, queue: serve, priorityClass: high}, {queue: main, priorityClass: normal}]}",
)
GPUS = 8000


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, POLICY)
    yield made
    made.close()


@pytest.fixture
def house_on_postgresql(tmp_path: Path, postgresql_database: str) -> Iterator[House]:
    made = House(postgresql_database, tmp_path, POLICY)
    yield made
    made.close()


def serve(house: House, **replicas: Any) -> str:
    return house.submit("api", **SERVICE, replicas=replicas)


def scale(house: House, service: str, number: int) -> dict[str, Any]:
    return scaling.scale(house.desk, ADMIN, parse("workload", service), number)


def group(house: House, service: str) -> dict[str, Any]:
    found: dict[str, Any] = house.show(service)["group"]
    return found


def running(house: House, service: str) -> int:
    return int(group(house, service)["counts"].get("running", 0))


def others(house: House) -> int:
    """GPUs that anything but services holds, in milli-devices."""
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    return sum(
        allocation.quantity
        for attempt in state.attempts.values()
        if attempt.kind != "inference"
        for member in attempt.members
        for allocation in member.allocations
        if allocation.device_class == "gpu"
    )


@pytest.mark.requirement("D5", "H2")
def test_a_service_scales_up_and_down_while_it_runs(house: House) -> None:
    service = serve(house, initial=1, max=3)
    house.run_until(lambda: running(house, service) == 1)
    assert scale(house, service, 3)["group"]["wanted"] == 3
    house.run_until(lambda: running(house, service) == 3)
    first = house.show(service)["attempts"][-1]["id"]
    scale(house, service, 1)
    house.run_until(lambda: group(house, service)["counts"].get("cancelled") == 2)
    page = house.show(service)
    assert (page["phase"], page["attempts"][-1]["id"]) == ("running", first)
    for member in page["group_members"][1:]:
        attempt = house.show(member["id"])["attempts"][-1]
        assert attempt["receipt"]["state"] == "confirmed"


@pytest.mark.requirement("D8", "H1", "H5", "H7")
def test_headroom_is_kept_while_batch_fills_the_pool_and_taken_at_once_when_it_is_wanted(
    house: House,
) -> None:
    service = serve(house, initial=1, guaranteed=2, max=2)
    house.tick(3)
    assert group(house, service)["replicas"] == {
        "guaranteed": 2, "used": 1, "kept": 1, "lent": 0, "restoring": 0,
    }  # fmt: skip
    assert group(house, service)["quantities"]["kept"]["gpu"] == 2000
    batch = [house.submit(f"b{number}", **BATCH) for number in range(8)]
    house.run_until(lambda: sum(house.phase(one) == "running" for one in batch) == 4)
    house.tick(5)
    assert others(house) == GPUS - 4000
    scale(house, service, 2)
    house.tick(2)
    assert group(house, service)["counts"] in ({"running": 1, "starting": 1}, {"running": 2})
    house.run_until(lambda: running(house, service) == 2)
    assert not any(house.show(one)["evictions"] for one in batch)
    scale(house, service, 1)
    house.run_until(lambda: group(house, service)["replicas"]["kept"] == 1)
    assert others(house) == GPUS - 4000


def test_services_arrays_and_evaluations_work_on_postgresql_too(house_on_postgresql: House) -> None:
    house = house_on_postgresql
    service = serve(house, initial=1, guaranteed=2, max=2)
    array = house.submit("sweep", kind="batch", array={"completions": 3, "parallelism": 2})
    asked = {"model": {"name": "m"}, "dataset": {"name": "d"}, "result": "r.json"}
    evaluation = house.submit("eval", kind="evaluation", evaluation=asked)
    scale(house, service, 2)
    house.run_until(lambda: running(house, service) == 2 and group(house, array)["done"] == 3)
    house.run_until(lambda: house.phase(evaluation) == "finished")
    assert house.show(evaluation)["evaluation"]["result"]["state"] == "missing"


@pytest.mark.requirement("H7", "H3")
def test_lent_headroom_is_used_by_others_and_taken_back_within_grace_and_release(house: House) -> None:
    service = serve(house, initial=1, guaranteed=2, max=2, lend=True)
    house.run_until(lambda: running(house, service) == 1)
    batch = [house.submit(f"b{number}", **BATCH) for number in range(8)]
    house.run_until(lambda: others(house) == 6000)
    assert group(house, service)["replicas"]["lent"] == 1
    asked = house.clock.at
    scale(house, service, 2)
    house.run_until(lambda: running(house, service) == 2)
    assert house.clock.at - asked < 5_000_000
    evicted = [found for one in batch for found in house.show(one)["evictions"]]
    assert len(evicted) == 2
    assert {found["rule"] for found in evicted} == {"guarantee"}


@pytest.mark.requirement("H9")
def test_a_replica_that_finds_no_place_names_what_holds_it(house: House) -> None:
    service = serve(house, initial=1, max=4)
    house.run_until(lambda: running(house, service) == 1)
    batch = [house.submit(f"b{number}", **BATCH, preemptible=False) for number in range(6)]
    house.run_until(lambda: others(house) == 6000)
    scale(house, service, 2)
    house.tick(3)
    waits = next(m for m in house.show(service)["group_members"] if m["index"] == 1)
    reasons = house.show(waits["id"])["reasons"]
    named = {holder["id"] for reason in reasons for holder in reason["holders"]}
    assert named & set(batch)


def test_what_can_not_be_guaranteed_is_refused_with_the_quota_that_is_short(house: House) -> None:
    serve(house, initial=1, guaranteed=1, max=2)
    with pytest.raises(RefusedError) as caught:
        serve(house, initial=1, guaranteed=2, max=2)
    (reason,) = caught.value.reasons
    found = (reason.code, reason.owner, reason.limit, reason.used)
    assert found == ("exceeds-guarantee", "serve", 4000, 2000)


def test_only_a_service_scales_and_only_within_its_bounds(house: House) -> None:
    service, batch = serve(house, initial=1, max=2), house.submit("b", **BATCH)
    with pytest.raises(InvalidError, match="field-out-of-bounds"):
        scale(house, service, 3)
    with pytest.raises(ConflictError, match="not-scalable"):
        scale(house, batch, 2)


def test_cancelling_a_service_ends_all_of_it_with_its_headroom(house: House) -> None:
    service = serve(house, initial=1, guaranteed=2, max=2)
    house.run_until(lambda: running(house, service) == 1)
    house.cancel(service)
    house.run_dry()
    assert group(house, service)["counts"] == {"cancelled": 1, "withdrawn": 1}
    with pytest.raises(ConflictError):
        scale(house, service, 2)
    with pytest.raises(ConflictError, match="replica-not-retried"):
        workloads.retry(house.desk, ADMIN, parse("workload", service))


def test_headroom_survives_a_restart_and_every_cycle_replays(house: House) -> None:
    service = serve(house, initial=1, guaranteed=2, max=2)
    house.run_until(lambda: running(house, service) == 1)
    house.restart()
    house.tick(3)
    assert group(house, service)["replicas"]["kept"] == 1
    scale(house, service, 2)
    house.run_until(lambda: running(house, service) == 2)
    with house.store.read() as view:
        cycles = [row.id for row in view.execute(select(t.cycle.c.id).order_by(t.cycle.c.id))]
    for cycle in cycles:
        answer = replay_cycle(house.store, ADMIN, SnapshotSource(), cycle)
        assert answer["same"], answer["differences"]


STEPS = st.lists(
    st.tuples(st.sampled_from(["batch", "wide", "scale", "cancel", "tick", "restart"]), st.integers(0, 7)),
    max_size=14,
)


@pytest.mark.requirement("H1", "H7")
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=STEPS)
def test_offline_work_never_takes_what_is_guaranteed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("house")
    house = House(sqlite_url(folder), folder, POLICY)
    try:
        service = serve(house, initial=1, guaranteed=2, max=2)
        house.run_until(lambda: group(house, service)["replicas"]["kept"] == 1)
        batch: list[str] = []
        for what, number in steps:
            _step(house, service, batch, what, number)
            assert others(house) <= GPUS - 4000
        _never_more_in_the_segments(house)
    finally:
        house.close()


def _step(house: House, service: str, batch: list[str], what: str, number: int) -> None:
    if what == "batch":
        batch.append(house.submit(f"b{len(batch)}", **BATCH))
    elif what == "wide":
        batch.append(house.submit(f"b{len(batch)}", **BATCH, count=1 + number % 4))
    elif what == "scale":
        scale(house, service, 1 + number % 2)
    elif what == "cancel" and batch:
        one = batch.pop(number % len(batch))
        if house.phase(one) != "finished":
            house.cancel(one)
    elif what == "restart":
        house.restart()
    house.tick(1 + number)


def _never_more_in_the_segments(house: House) -> None:
    """The same from the ledger: at each border of a holding segment, what all batch held together."""
    with house.store.read() as view:
        s = t.allocation.c
        rows = view.execute(
            select(s.t0, s.t1, s.quantity).where(s.queue == "main", s.device_class == "gpu")
        ).all()
    for border in {row.t0 for row in rows}:
        held = sum(r.quantity for r in rows if r.t0 <= border and (r.t1 is None or r.t1 > border))
        assert held <= GPUS - 4000


def test_keeping_headroom_again_stops_nobody(house: House) -> None:
    service = serve(house, initial=2, guaranteed=2, max=2)
    house.run_until(lambda: running(house, service) == 2)
    batch = [house.submit(f"b{number}", **BATCH) for number in range(6)]
    house.run_until(lambda: others(house) == GPUS - 4000)
    scale(house, service, 1)
    house.run_until(lambda: group(house, service)["replicas"]["kept"] == 1)
    assert not any(house.show(one)["evictions"] for one in batch)


def test_headroom_that_has_no_place_yet_is_being_restored_and_goes_before_anything_else(house: House) -> None:
    batch = [house.submit(f"b{number}", **BATCH) for number in range(12)]
    house.run_until(lambda: others(house) == GPUS)
    service = serve(house, initial=1, guaranteed=2, max=2)
    house.run_until(lambda: running(house, service) == 1)
    found = group(house, service)["replicas"]
    assert (found["kept"], found["restoring"]) == (0, 1)
    for one in [one for one in batch if house.phase(one) == "running"][:2]:
        house.cancel(one)
    house.run_until(lambda: group(house, service)["replicas"]["kept"] == 1)


def test_a_replica_above_a_limit_that_refuses_is_refused_with_a_record_and_nothing_is_changed(
    house: House,
) -> None:
    service = house.submit("api", **SERVICE, namespace="translate-dev", replicas={"initial": 1, "max": 3})
    house.run_until(lambda: running(house, service) == 1)
    with pytest.raises(RefusedError) as caught:
        scale(house, service, 2)
    assert caught.value.reasons[0].code == "over-limit"
    assert str(caught.value.params["refusal"]).startswith("rf_")
    assert group(house, service)["wanted"] == 1


@pytest.mark.requirement("H8")
@pytest.mark.parametrize(("gpu", "sharing"), [(2, "exclusive"), ("0.5", "shared")])
def test_each_replica_says_whether_it_has_its_devices_to_itself(house: House, gpu: Any, sharing: str) -> None:
    wanted = {**SERVICE, "requests": {"cpu": "1", "memory": "1Gi", "gpu": gpu}}
    service = house.submit("api", **wanted, replicas={"initial": 2, "max": 2})
    house.run_until(lambda: running(house, service) == 2)
    assert [one["sharing"] for one in house.show(service)["group_members"]] == [sharing] * 2

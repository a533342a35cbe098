"""Gangs in a whole control plane: elastic roles, members near each other, who may go first; their replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.control.attempts import MEMBERS, attempt_start
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse
from steelyard.services import workloads
from steelyard.services.workload_document import parse_workload
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.house import ADMIN, DOCUMENTS, House

RACKS = DOCUMENTS.replace(
    "    - {count: 2, prefix: n, cpu: \"16\", memory: 64Gi,",
    "    - {count: 2, prefix: r, cpu: \"16\", memory: 64Gi, labels: {rack: r1},\n"
    "       devices: [{class: gpu, family: nvidia, model: A100, count: 1, memory: 80Gi}]}\n"
    "    - {count: 2, prefix: n, cpu: \"16\", memory: 64Gi, labels: {rack: r2},",
).replace('nominal: "8"', 'nominal: "16"')


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path, RACKS)
    yield made
    made.close()


def document(name: str, *roles: dict[str, Any], **spec: Any) -> dict[str, Any]:
    filled = [
        {"name": f"role{index}", "command": ["train"], "expect": {"run": "1s"},
         "requests": {"cpu": "1", "memory": "1Gi", "gpu": 1}, **role}
        for index, role in enumerate(roles)
    ]
    return {
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "detect-dev"},
        "spec": {"kind": "training", "roles": filled, **spec},
    }


def submit(house: House, *roles: dict[str, Any], **spec: Any) -> str:
    return str(workloads.submit(house.desk, ADMIN, document("gang", *roles, **spec))["id"])


def members(house: House, workload: str) -> list[str]:
    """Nodes of the members, in order; empty while it waits."""
    house.tick(3)
    attempt = house.live[parse("workload", workload)]
    return [member.node for member in attempt.members]


def test_an_elastic_gang_starts_with_what_is_there_and_tells_its_members_how_many(house: House) -> None:
    filler = submit(house, {"count": 5, "expect": {"run": "60s"}})
    assert len(members(house, filler)) == 5
    gang = submit(house, {"count": 12, "min": 3})
    assert len(members(house, gang)) == 5  # of ten devices
    assert house.loop.desk is not None
    attempt = house.live[parse("workload", gang)]
    start = attempt_start(house.loop.desk.context.state, "in_x", attempt, "sim")
    assert {dict(member.env)[MEMBERS] for member in start.members} == {"5"}
    house.cancel(filler)
    house.run_dry()
    assert house.show(gang)["outcome"] == "succeeded"
    assert replay_all(house)["placements"] == 2


def test_with_fewer_than_its_least_it_waits_and_starts_as_soon_as_there_are_enough(house: House) -> None:
    filler = submit(house, {"count": 8, "expect": {"run": "60s"}})
    gang = submit(house, {"count": 6, "min": 3})
    assert members(house, gang) == []
    house.cancel(filler)
    house.run_until(lambda: house.phase(gang) == "running")
    assert len(members(house, gang)) == 6
    house.run_dry()
    replay_all(house)


def test_a_required_level_keeps_all_members_in_one_domain(house: House) -> None:
    near = submit(house, {"count": 2}, topology={"required": "rack"})
    assert members(house, near) == ["r-0", "r-1"]  # the smallest domain that holds it
    wide = submit(house, {"count": 2, "requests": {"gpu": 3, "cpu": 1, "memory": "1Gi"}},
                  topology={"required": "rack"})
    assert members(house, wide) == ["n-0", "n-1"]
    third = submit(house, {"count": 2}, topology={"required": "rack"})
    assert sorted(members(house, third)) == ["n-0", "n-1"]
    last = submit(house, {"count": 2}, topology={"required": "rack"}, timeLimit="1m")
    assert members(house, last) == []
    house.run_dry()
    replay_all(house)


def test_what_no_domain_could_ever_hold_is_refused_at_submit(house: House) -> None:
    with pytest.raises(Exception, match="refused") as refused:
        submit(house, {"count": 9}, topology={"required": "rack"})
    assert refused.value.reasons[0].params["per"] == "domain"  # type: ignore[attr-defined]


def test_a_short_one_goes_before_a_reserved_gang_and_a_long_one_does_not(house: House) -> None:
    submit(house, {"count": 4, "expect": {"run": "20s"}}, timeLimit="30s")
    gang = submit(house, {"count": 10, "expect": {"run": "5s"}}, timeLimit="10s")
    long = submit(house, {"expect": {"run": "5s"}}, timeLimit="60s")
    short = submit(house, {"expect": {"run": "5s"}}, timeLimit="10s")
    assert [bool(members(house, each)) for each in (gang, long, short)] == [False, False, True]
    answer = workloads.explain_workload(house.desk, ADMIN, parse("workload", long))
    assert [reason["code"] for reason in answer["reasons"]] == ["reserved-for"]
    named = [[holder["name"] for holder in reason["holders"]] for reason in answer["reasons"]]
    assert named == [[house.show(gang)["name"]]], "whose place it is is told by its name"
    house.run_until(lambda: house.phase(gang) == "running", step=200_000)
    assert house.phase(long) == "queued"
    house.run_dry()
    replay_all(house)


@pytest.mark.parametrize(
    ("role", "spec", "path"),
    [
        ({"count": 2, "min": 3}, {}, "spec.roles[0].min"),
        ({"min": 0}, {}, "spec.roles[0].min"),
        ({}, {"topology": {"required": "not a key"}}, "spec.topology.required"),
        ({}, {"topology": {"near": "rack"}}, "spec.topology.near"),
    ],
)
def test_what_is_wrong_with_it_is_told(role: dict[str, Any], spec: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidError) as told:
        parse_workload(document("gang", role, **spec), lambda _name, _version: None)
    assert told.value.params["path"] == path


def test_what_was_stopped_for_others_keeps_how_long_it_was_served(house: House) -> None:
    house.apply(
        "kind: Queue\nmetadata: {name: main}\n"
        "spec: {cohort: all, owner: platform, precedence: LeastServed, limits: [{class: gpu, nominal: '16'}]}"
    )
    low = submit(house, {"count": 10, "expect": {"run": "5s"}})
    house.run_until(lambda: house.phase(low) == "running")
    house.tick(20, step=100_000)
    high = submit(house, {"count": 10, "expect": {"run": "1s"}}, priorityClass="high")
    house.run_until(lambda: house.phase(low) == "queued")
    served = house.live[parse("workload", low)].served
    assert 1_900_000 < served < 3_000_000
    house.restart()
    house.tick()
    assert house.live[parse("workload", low)].served == served
    house.run_dry()
    assert house.show(high)["outcome"] == house.show(low)["outcome"] == "succeeded"
    replay_all(house)

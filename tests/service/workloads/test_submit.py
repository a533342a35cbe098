"""Submit: what is written, what is judged, what a dry run says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse
from steelyard.model.workloads import WorkloadSpec
from steelyard.services.shapes import make_shape, read_shape, shape_body
from steelyard.services.submission import Submitted, read_spec, write_spec
from steelyard.services.workload_document import parse_workload
from steelyard.services.workloads import Desk, show, submit
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_size
from steelyard.store.unit import Unit
from tests.support.stores import Clock, apply, doc
from tests.support.worlds import ANN, BOB, ROOT, workload


def leaves(desk: Desk, action: str) -> list[dict[str, Any]]:
    with desk.store.read() as view:
        found = [json.loads(body) for body in bodies(view, 0, log_size(view))]
    return [leaf for leaf in found if leaf["action"] == action]


def spec_of(document: dict[str, Any]) -> WorkloadSpec:
    return parse_workload(document, lambda _name, _version: None)


FULL = {
    "timeLimit": "1h",
    "grace": "5s",
    "restart": "never",
    "artifacts": ["out/model.npz"],
    "roles": [
        {
            "name": "main",
            "count": 2,
            "command": ["python", "a b", "数"],
            "env": {"A": "1"},
            "requests": {"cpu": "500m", "memory": "2Gi", "gpu": 1},
            "models": ["A100"],
            "nodeLabels": {"zone": "a"},
            "port": True,
            "probe": {"path": "/healthz"},
            "expect": {"run": "5s"},
        }
    ],
}


def test_a_spec_is_read_back_as_it_was_written() -> None:
    spec = spec_of(workload("job", **FULL))
    assert read_spec(write_spec(spec)) == spec


def test_a_shape_is_read_back_as_it_was_written(desk: Desk) -> None:
    planned = desk.plan(ANN, workload())
    assert isinstance(planned, Submitted)
    assert read_shape(shape_body(planned.admitted.shape)) == planned.admitted.shape


def test_equal_requests_share_a_shape_and_a_row_of_it(desk: Desk) -> None:
    submit(desk, ANN, workload("a"))
    submit(desk, ANN, workload("b", grace="5s"))
    submit(desk, ANN, workload("c", requests={"cpu": 2, "memory": 256, "gpu": 1}))
    with desk.store.read() as view:
        assert len(view.execute(select(t.shape.c.key)).all()) == 2
        ids = [row.shape_id for row in view.execute(select(t.workload.c.shape_id).order_by(t.workload.c.id))]
    assert ids[0] == ids[1] != ids[2]


def test_a_shape_differs_by_place_queue_and_priority(desk: Desk) -> None:
    spec = spec_of(workload())
    ground = desk.grounds.current(desk.store.now())
    here = ground.history.place("vision-dev", desk.store.now())
    there = ground.history.place("speech-dev", desk.store.now())
    assert here is not None
    assert there is not None
    keys = {
        make_shape(spec, here, "main", 1).key,
        make_shape(spec, here, "main", 2).key,
        make_shape(spec, here, "other", 1).key,
        make_shape(spec, there, "main", 1).key,
    }
    assert len(keys) == 4
    assert make_shape(spec, here, "main", 1).org_path == (
        "namespace/vision-dev",
        "project/vision",
        "team/alpha",
    )


@pytest.mark.requirement("D1", "D14", "A4")
def test_a_submit_is_routed_and_waits_with_its_first_attempt(desk: Desk, clock: Clock) -> None:
    view = submit(desk, ANN, workload("job", priorityClass="high"))
    assert (view["queue"], view["priority"], view["phase"]) == ("main", 1000, "queued")
    assert (view["project"], view["team"], view["namespace"]) == ("vision", "alpha", "vision-dev")
    assert view["requested"] == {"cpu": 1000, "gpu": 1000, "memory": 256}
    (attempt,) = view["attempts"]
    assert attempt["number"] == 1
    assert attempt["times"]["submitted"] == attempt["times"]["eligible"] == clock.at
    assert view["reasons"][0]["code"] == "pending-evaluation"
    assert view["ahead"] == 0


@pytest.mark.requirement("K1", "K8")
def test_the_leaf_of_a_submit_says_who_what_where_and_how_much(desk: Desk, clock: Clock) -> None:
    view = submit(desk, ANN, workload())
    (leaf,) = leaves(desk, "workload.submit")
    assert leaf["object"] == {
        "kind": "workload",
        "id": view["id"],
        "version_before": None,
        "version_after": 1,
    }
    assert leaf["transitions"] == [{"at": clock.at, "from": None, "sub": None, "to": "queued"}]
    assert leaf["detail"]["requested"] == view["requested"]
    assert leaf["detail"]["queue"] == "main"
    assert "project/vision" in [stream["name"] for stream in leaf["streams"]]
    with desk.store.read() as connection:
        row = connection.execute(select(t.workload)).one()
    assert (row.head_n, row.head_seq) == (1, leaf["seq"])


def test_a_held_workload_is_not_eligible(desk: Desk) -> None:
    view = submit(desk, ANN, workload("job", hold=True))
    assert view["phase"] == "held"
    assert view["attempts"][0]["times"]["eligible"] is None
    assert [reason["code"] for reason in view["reasons"]] == ["held"]


@pytest.mark.requirement("C15")
def test_a_template_lies_beneath_and_its_version_is_kept(desk: Desk) -> None:
    apply(desk.store, doc("Template", "small", version="1", spec={"timeLimit": "10m", "grace": "1s"}))
    view = submit(desk, ANN, workload("job", template="small", grace="2s"))
    assert view["spec"]["template"] == "small@1"
    assert (view["spec"]["time_limit"], view["spec"]["grace"]) == (600_000_000, 2_000_000)


def test_a_template_that_is_declared_a_moment_before_is_there(desk: Desk) -> None:
    submit(desk, ANN, workload("a"))
    apply(desk.store, doc("Template", "t", version="2", spec={"timeLimit": "1m"}))
    assert submit(desk, ANN, workload("b", template="t@2"))["spec"]["time_limit"] == 60_000_000


def test_a_limit_that_was_just_set_counts_for_the_next_submit(desk: Desk) -> None:
    submit(desk, ANN, workload("a"))
    apply(desk.store, doc("Quota", "vision", project="vision", limits=[{"class": "gpu", "hard": 0}]))
    with pytest.raises(SteelyardError):
        submit(desk, ANN, workload("b"))


def test_what_may_fit_a_cluster_of_which_nothing_was_found_yet_is_let_in(desk: Desk) -> None:
    big = {"cpu": 500}
    with pytest.raises(SteelyardError):
        submit(desk, ANN, workload("before", requests=big))
    new = {"nodes": [{"count": 1, "prefix": "new"}]}
    apply(desk.store, doc("Cluster", "new", engine="simulated", simulation=new))
    assert submit(desk, ANN, workload("after", requests=big))["phase"] == "queued"
    elsewhere = {"name": "main", "command": ["a"], "requests": big, "clusters": ["here"]}
    with pytest.raises(SteelyardError):
        submit(desk, ANN, workload("elsewhere", roles=[elsewhere]))


def test_a_dry_run_writes_nothing_and_says_where_it_would_start(desk: Desk) -> None:
    with desk.store.read() as view:
        before = log_size(view)
    answer = submit(desk, ANN, workload(), dry_run=True)
    assert answer["would"] == "start"
    assert answer["placement"][0]["node"] == "sim-0"
    assert submit(desk, ANN, workload("big", requests={"gpu": 99}), dry_run=True)["would"] == "refuse"
    with desk.store.read() as view:
        assert log_size(view) == before


def test_an_answer_can_be_recorded_in_the_same_unit(desk: Desk) -> None:
    seen: list[tuple[Unit, str]] = []
    view = submit(desk, ANN, workload(), on_unit=lambda unit, name: seen.append((unit, name)))
    assert [name for _, name in seen] == [view["id"]]


def test_members_of_two_projects_submit_to_one_queue(desk: Desk) -> None:
    first, second = submit(desk, ANN, workload()), submit(desk, BOB, workload("job", "speech-dev"))
    assert first["queue"] == second["queue"] == "main"
    assert show(desk, ROOT, parse("workload", second["id"]))["project"] == "speech"


def test_many_submits_may_be_under_way_at_once(desk: Desk) -> None:
    futures = [desk.store.writer.submit(desk.plan(ANN, workload(f"job-{i}")).unit) for i in range(300)]
    assert len({future.result(30).result for future in futures}) == 300
    assert len(desk.known_shapes) == 1

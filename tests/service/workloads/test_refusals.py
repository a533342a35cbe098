"""Refusals: every request that is turned away leaves a record with its reasons, and a leaf."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.evidence.leaf import ActorRef
from steelyard.identity.authorise import scope
from steelyard.model.errors import ForbiddenError, InvalidError, RefusedError, SteelyardError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.refusals import list_refusals
from steelyard.services.workloads import Desk, submit
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_size
from steelyard.store.unit import Unit
from tests.support.worlds import ANN, BOB, EVE, GPUS, ROOT, workload


def refused(desk: Desk, principal: Principal, document: object) -> SteelyardError:
    with pytest.raises(SteelyardError) as caught:
        submit(desk, principal, document)
    return caught.value


def records(desk: Desk, seen: Scope) -> list[dict[str, Any]]:
    with desk.store.read() as view:
        return list_refusals(view, seen)[0]


def last_leaf(desk: Desk) -> dict[str, Any]:
    with desk.store.read() as view:
        size = log_size(view)
        (body,) = bodies(view, size - 1, size)
    found: dict[str, Any] = json.loads(body)
    return found


@pytest.mark.requirement("E13", "K2")
def test_more_than_there_will_ever_be_is_refused_with_all_reasons(desk: Desk) -> None:
    error = refused(desk, ROOT, workload("job", count=GPUS + 1))
    assert isinstance(error, RefusedError)
    codes = [reason.code for reason in error.reasons]
    assert "exceeds-max-quota" in codes
    assert "exceeds-capacity" in codes
    (record,) = records(desk, Scope.system())
    assert record["id"] == error.params["refusal"]
    assert [reason["code"] for reason in record["reasons"]] == codes
    assert record["asked"] == {"cpu": 5000, "gpu": 5000, "memory": 1280}
    leaf = last_leaf(desk)
    assert (leaf["outcome"], leaf["reason_code"]) == ("refused", codes[0])
    assert leaf["object"]["id"] == record["id"]
    assert "project/vision" in [stream["name"] for stream in leaf["streams"]]


@pytest.mark.requirement("E13")
def test_over_a_limit_that_refuses_it_is_refused_and_over_one_that_waits_it_waits(desk: Desk) -> None:
    unit = Unit(ActorRef("system", "system"))
    for node in ("project/vision", "project/speech"):
        unit.charge("organisation", node, "gpu", 2000)
    desk.store.writer.write(unit)
    desk.grounds.drop()
    error = refused(desk, ANN, workload("job", count=2))
    assert isinstance(error, RefusedError)
    (reason,) = error.reasons
    assert (reason.code, reason.owner, reason.limit) == ("over-limit", "project/vision", 3000)
    assert (reason.used, reason.requested, reason.short_by) == (2000, 2000, 1000)
    assert submit(desk, BOB, workload("job", "speech-dev"))["phase"] == "queued"


@pytest.mark.requirement("F14", "K2")
def test_a_namespace_that_is_not_there_is_refused_and_recorded_without_a_project(desk: Desk) -> None:
    error = refused(desk, ANN, workload("job", "nowhere"))
    assert isinstance(error, RefusedError)
    assert [reason.code for reason in error.reasons] == ["no-namespace"]
    (record,) = records(desk, Scope.system())
    assert (record["project"], record["namespace"]) == (None, "nowhere")
    assert last_leaf(desk)["streams"][0]["name"].startswith("object/refusal/")


@pytest.mark.requirement("K2")
def test_a_viewer_may_not_submit_and_the_denial_is_a_leaf(desk: Desk) -> None:
    error = refused(desk, EVE, workload())
    assert isinstance(error, ForbiddenError)
    assert error.params["refusal"] == records(desk, Scope.system())[0]["id"]
    leaf = last_leaf(desk)
    assert (leaf["outcome"], leaf["reason_code"]) == ("refused", "missing-grant")


def test_a_namespace_out_of_sight_is_told_like_one_that_is_not_there(desk: Desk) -> None:
    there, nowhere = (refused(desk, BOB, workload("job", name)) for name in ("vision-dev", "nowhere"))
    assert type(there) is type(nowhere) is RefusedError
    assert [r.code for r in there.reasons] == [r.code for r in nowhere.reasons] == ["no-namespace"]
    known = {record["namespace"]: record for record in records(desk, scope(BOB, Verb.VIEW, "refusal"))}
    assert known["vision-dev"]["project"] is None
    assert known["vision-dev"]["reasons"][0]["code"] == "no-namespace"
    of_project = records(desk, scope(ANN, Verb.VIEW, "refusal"))
    assert [record["reasons"][0]["code"] for record in of_project] == ["missing-grant"]


@pytest.mark.requirement("A4", "F14")
def test_a_kind_without_a_route_and_a_queue_nobody_leads_to_are_refused(desk: Desk) -> None:
    for document, code in (
        (workload("job", "speech-dev", kind="batch"), "no-route"),
        (workload("job", "speech-dev", queue="other"), "no-queue"),
        (workload("job", "speech-dev", priorityClass="high"), "no-route"),
    ):
        error = refused(desk, BOB, document)
        assert isinstance(error, RefusedError)
        assert [reason.code for reason in error.reasons] == [code]


@pytest.mark.requirement("F14")
@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"kind": "Workload"},
        workload("x" * 10_000_000),
        workload("NO"),
        workload("job", surprise=1),
        workload("job", requests={"gpu": -1}),
        workload("job", requests={"gpu": float("nan")}),
        workload("job", requests={"gpu": 10**30}),
        workload("job", "e\u0301"),
        workload("job", "\ud800"),
        workload("job", "\x1b[31mred"),
        workload("job", artifacts=["../../etc/passwd"]),
        {"kind": "Workload", "metadata": {"name": "a", "namespace": {}}, "spec": 7},
    ],
    ids=lambda document: str(document)[:40].encode("ascii", "replace").decode(),
)
def test_a_document_that_is_wrong_is_recorded_shortly(desk: Desk, document: object) -> None:
    error = refused(desk, ANN, document)
    assert isinstance(error, InvalidError)
    (record,) = records(desk, scope(ANN, Verb.VIEW, "refusal"))
    assert record["reasons"][0]["code"] == "invalid-request"
    assert record["asked"] is None
    assert len(json.dumps(record)) < 2000
    assert last_leaf(desk)["reason_code"] == "invalid-request"


def test_refusals_of_other_projects_are_not_in_the_list(desk: Desk) -> None:
    refused(desk, ANN, workload("job", count=9))
    assert records(desk, scope(BOB, Verb.VIEW, "refusal")) == []
    assert len(records(desk, scope(EVE, Verb.VIEW, "refusal"))) == 1


def test_pages_of_refusals_go_on_where_the_last_one_ended(desk: Desk) -> None:
    for index in range(5):
        refused(desk, ANN, workload(f"job-{index}", count=9))
    with desk.store.read() as view:
        first, cursor = list_refusals(view, Scope.system(), limit=3)
        second, end = list_refusals(view, Scope.system(), cursor=cursor, limit=3)
    assert [r["name"] for r in (*first, *second)] == [f"job-{index}" for index in (4, 3, 2, 1, 0)]
    assert end is None


def test_a_refusal_has_a_row_and_a_leaf_or_neither(desk: Desk) -> None:
    refused(desk, ANN, workload("job", count=9))
    with desk.store.read() as view:
        (row,) = view.execute(t.refusal.select()).all()
    assert row.head_seq == last_leaf(desk)["seq"]

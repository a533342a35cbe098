"""Lists, explanations and the quota trees: filters, pages, order and what a reader may see."""

from __future__ import annotations

import json
from typing import Any

import pytest

from steelyard.evidence.leaf import ActorRef
from steelyard.identity.authorise import scope
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.reasons import Holder, Reason
from steelyard.services.policy import quota_trees
from steelyard.services.queues import queue_page, quota_page, tree_views
from steelyard.services.reasons import scoped_reason
from steelyard.services.workloads import Desk, explain_workload, list_page, submit
from steelyard.store import tables as t
from steelyard.store.unit import Unit
from steelyard.store.workloads import WorkloadFilter, count_live
from tests.support.stores import Clock
from tests.support.worlds import ANN, BOB, EVE, ROOT, workload


def names(desk: Desk, principal: Principal = ROOT, **wanted: Any) -> list[str]:
    return [row["name"] for row in list_page(desk, principal, WorkloadFilter(**wanted))[0]]


def test_a_list_shows_the_projects_of_its_reader(desk: Desk) -> None:
    submit(desk, ANN, workload("seen"))
    submit(desk, BOB, workload("other", "speech-dev"))
    assert names(desk, ANN) == names(desk, EVE) == ["seen"]
    assert names(desk, BOB) == ["other"]
    assert names(desk, ROOT) == ["other", "seen"]
    assert names(desk, ANN, project="speech") == []


def test_the_row_of_what_failed_says_why_and_of_what_succeeded_nothing(desk: Desk) -> None:
    for name, outcome in (("bad", "failed"), ("good", "succeeded")):
        number = parse("workload", submit(desk, ANN, workload(name))["id"])
        unit = Unit(ActorRef("control", "control"))
        verdict = json.dumps({"code": "exit-code", "stage": "application"})
        unit.update(t.attempt, {"workload_id": number}, verdict_json=verdict)
        unit.update(t.workload, {"id": number}, phase="finished", outcome=outcome)
        desk.store.writer.write(unit)
    rows = {row["name"]: row["verdict"] for row in list_page(desk, ANN, WorkloadFilter())[0]}
    assert rows == {"bad": {"code": "exit-code", "stage": "application"}, "good": None}


def test_a_list_is_narrowed_by_each_filter(desk: Desk) -> None:
    submit(desk, ANN, workload("a-train"))
    submit(desk, ANN, workload("b-serve", kind="inference", hold=True))
    assert names(desk, kind="inference") == names(desk, phase="held") == ["b-serve"]
    assert names(desk, kind="training") == names(desk, phase="queued") == ["a-train"]
    assert names(desk, phase="live", queue="main", namespace="vision-dev") == ["b-serve", "a-train"]
    assert names(desk, outcome="failed") == []
    assert names(desk, text="TRAIN".lower()) == ["a-train"]
    assert names(desk, text="%") == []


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages_go_on_where_the_last_one_ended(desk: Desk, order: str) -> None:
    for index in range(7):
        submit(desk, ANN, workload(f"job-{index}"))
    found: list[str] = []
    cursor: str | None = None
    while True:
        rows, cursor = list_page(desk, ANN, WorkloadFilter(), cursor=cursor, limit=3, order=order)
        found += [row["name"] for row in rows]
        if cursor is None:
            break
    wanted = [f"job-{index}" for index in range(7)]
    assert found == (wanted if order == "oldest" else wanted[::-1])


@pytest.mark.parametrize("limit", [0, 501, -1])
def test_a_page_has_a_bound(desk: Desk, limit: int) -> None:
    with pytest.raises(InvalidError):
        list_page(desk, ANN, WorkloadFilter(), limit=limit)


@pytest.mark.requirement("E5")
def test_what_fits_can_start_by_the_same_decide(desk: Desk) -> None:
    number = parse("workload", submit(desk, ANN, workload())["id"])
    answer = explain_workload(desk, ANN, number)
    assert (answer["decision"], answer["position"], answer["reasons"]) == ("can-start", 1, [])
    assert answer["policy_version"] >= 1


@pytest.mark.requirement("E4", "E5", "J12")
def test_what_waits_for_quota_says_for_which_and_who_is_ahead(desk: Desk, clock: Clock) -> None:
    submit(desk, BOB, workload("first", "speech-dev", count=2))
    clock.forward(1)
    submit(desk, ANN, workload("secret", count=2))
    clock.forward(1)
    number = parse("workload", submit(desk, BOB, workload("second", "speech-dev"))["id"])
    answer = explain_workload(desk, BOB, number)
    assert answer["decision"] == "waits"
    assert answer["reasons"][0]["code"] == "waiting-for-quota"
    assert answer["reasons"][0]["owner"] == "project/speech"
    assert answer["position"] == 3
    assert [entry["name"] for entry in answer["ahead"]] == ["first", None]
    assert answer["ahead"][1]["id"] is None
    assert answer["wakes_on"]


def test_a_held_and_a_finished_workload_are_explained_too(desk: Desk) -> None:
    number = parse("workload", submit(desk, ANN, workload("job", hold=True))["id"])
    answer = explain_workload(desk, ANN, number)
    assert (answer["decision"], answer["reasons"][0]["code"]) == ("waits", "held")


@pytest.mark.requirement("J12")
def test_holders_of_other_projects_are_nameless_and_their_amount_stays() -> None:
    mine = Holder("workload", render("workload", 1), 600, "mine", "vision", "main", 5)
    other = Holder("workload", render("workload", 2), 400, "theirs", "speech", "main", 6)
    reason = Reason("waiting-for-capacity", "placement", short_by=1000, holders=(mine, other))
    shown = scoped_reason(reason, Scope(frozenset({"vision"})))
    assert shown.holders == (mine, Holder("workload", "", 400))
    assert sum(holder.amount for holder in shown.holders) == reason.short_by
    assert scoped_reason(reason, Scope.system()) is reason


def test_counts_are_within_the_scope(desk: Desk) -> None:
    submit(desk, ANN, workload("a"))
    submit(desk, BOB, workload("b", "speech-dev"))
    mine = ("main", "vision", "vision-dev", "queued")
    with desk.store.read() as view:
        assert sum(count_live(view, Scope.system()).values()) == 2
        assert count_live(view, scope(ANN, Verb.VIEW, "workload")) == {mine: 1}


def test_queues_and_quotas_are_shown_as_far_as_the_reader_sees(desk: Desk) -> None:
    submit(desk, ANN, workload("a"))
    submit(desk, BOB, workload("b", "speech-dev"))
    (queue,) = queue_page(desk.store, ANN)
    assert (queue["name"], queue["kind"], queue["pending"]) == ("main", "queue", 1)
    assert [node["node"] for node in quota_page(desk.store, ANN)] == [
        "team/alpha",
        "project/vision",
        "namespace/vision-dev",
    ]
    every = {node["node"]: node["pending"] for node in quota_page(desk.store, ROOT)}
    assert every["project/speech"] == every["namespace/vision-dev"] == 1


def test_the_trees_show_what_is_owned_used_and_could_be(desk: Desk) -> None:
    with desk.store.read() as view:
        trees = quota_trees(view)
    usage = {("project/vision", "gpu"): 1000, ("team/alpha", "gpu"): 1000}
    shown = {node["node"]: node for node in tree_views(trees["organisation"], usage, {})}
    (limit,) = shown["project/vision"]["limits"]
    assert (limit["nominal"], limit["borrowing_limit"], limit["used"]) == (0, 3000, 1000)
    assert (limit["available"], limit["potential"], limit["on_exceed"]) == (2000, 3000, "refuse")
    assert (limit["hard"], limit["class"]) == (3000, "gpu")
    assert shown["project/vision"]["name"] == "vision"
    assert shown["project/vision"]["parent"] == "team/alpha"

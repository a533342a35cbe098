"""What a member is told about work of other projects: sums, and nothing that names any of it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from steelyard import locale
from steelyard.model.ids import render
from steelyard.model.organisation import Scope
from steelyard.model.reasons import Holder, Reason
from steelyard.scheduling import Snapshot, explain
from steelyard.scheduling.ahead import ahead
from steelyard.scheduling.smallest import smallest
from steelyard.services.ahead import entry_view
from steelyard.services.explain import decision_of
from steelyard.services.reasons import reason_view, scoped_holders, scoped_reason
from steelyard.services.remedies import remedy_view
from tests.unit.scheduling.build import NOW
from tests.unit.scheduling.test_smallest import Case, cases

MEMBER, OPERATOR = Scope(frozenset({"p"})), Scope.system()
#: What would name the other tenant: its project, namespace and organisation nodes, its people and its work.
SECRETS = ("zz-project", "zz-user", "zz-name", '"ns-o"', '"o"', "ns-o")


def hidden(case: Case) -> Case:
    """The world with telling names for everything of project o."""
    running = {
        attempt: replace(run, project="zz-project", user="zz-user", name=f"zz-name-{attempt}")
        if run.project == "o" else replace(run, name=f"mine-{attempt}")
        for attempt, run in case.snapshot.running.items()
    }  # fmt: skip
    pending = tuple(
        replace(group, shape=replace(group.shape, project="zz-project", user="zz-user"))
        if group.shape.project == "o" else group
        for group in case.snapshot.pending
    )  # fmt: skip
    return replace(case, snapshot=replace(case.snapshot, running=running, pending=pending))


def told(case: Case, scope: Scope) -> dict[str, Any]:
    """The answer of `explain` as a reader of the scope gets it, with its sentences."""
    snapshot = case.snapshot
    found = explain(snapshot, case.policy, NOW, case.shape, case.item)
    _, reasons = decision_of(found, ())
    seen = [scoped_reason(reason, scope) for reason in reasons]
    changes = smallest(snapshot, case.policy, NOW, case.shape, case.item, case.elsewhere)
    remedies = [remedy_view(remedy, snapshot, case.policy, scope) for remedy in changes]
    before = ahead(snapshot, case.policy, NOW, case.shape, case.item)
    names = {
        each.item.workload_id: {"name": f"mine-{each.item.workload_id}"}
        for each in before.first
        if scope.allows(each.shape.project)
    }
    return {
        "reasons": [reason_view(reason) for reason in seen],
        "remedies": remedies,
        "ahead": [entry_view(each, names) for each in before.first],
        "texts": [
            *(locale.reason_text(reason, lang) for reason in seen for lang in ("zh", "en")),
            *(locale.remedy_text(remedy, lang) for remedy in remedies for lang in ("zh", "en")),
        ],
    }


def others(snapshot: Snapshot) -> list[str]:
    """Ids of the other tenant's work."""
    found = {run.workload_id for run in snapshot.running.values() if run.project == "zz-project"}
    waits = (group for group in snapshot.pending if group.shape.project == "zz-project")
    found |= {head.workload_id for group in waits for head in group.heads}
    return [render("workload", number) for number in sorted(found)]


@pytest.mark.requirement("J12")
@given(cases().filter(lambda case: case.shape.project == "p").map(hidden))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_nothing_that_a_member_is_told_names_anybody_else(case: Case) -> None:
    answer = json.dumps(told(case, MEMBER), ensure_ascii=False)
    assert [word for word in (*SECRETS, *others(case.snapshot)) if word in answer] == []


@given(cases().filter(lambda case: case.shape.project == "p").map(hidden))
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_the_sums_are_the_same_for_a_member_and_for_an_operator(case: Case) -> None:
    mine, all_of_it = told(case, MEMBER), told(case, OPERATOR)
    for part in ("reasons", "remedies"):
        for seen, full in zip(mine[part], all_of_it[part], strict=True):
            assert sum(each["amount"] for each in seen["holders"]) == sum(
                each["amount"] for each in full["holders"]
            )
            assert sum(1 for each in seen["holders"] if not each["id"]) <= 1


def test_how_many_others_hold_it_is_not_told() -> None:
    mine = Holder("workload", "wl_1", 100, "mine", "p")
    theirs = [Holder("workload", f"wl_{n}", n, f"n{n}", "o") for n in (2, 3)]
    tail = Holder("others", "12", 40)
    found = scoped_holders((theirs[0], mine, theirs[1], tail), MEMBER)
    assert found == (Holder("workload", "", 45), mine)


def test_parameters_that_name_other_work_are_left_out_for_a_member_alone() -> None:
    params = {"workload": render("workload", 7), "user": "bo", "role": "a"}
    reason = Reason("draining", "queue", params=params)
    assert scoped_reason(reason, MEMBER).params == {"role": "a"}
    assert scoped_reason(reason, OPERATOR).params == reason.params


def test_victims_are_named_only_where_they_are_the_readers_own() -> None:
    params = {"victims": "wl_1,wl_2", "victim_count": 2}
    mine = Holder("workload", "wl_1", 100, "mine", "p")
    waits = Reason("waiting-for-preempted-workloads", "preemption", holders=(mine,), params=params)
    assert scoped_reason(waits, MEMBER).params == {"victims": "wl_1", "victim_count": None}
    assert scoped_reason(replace(waits, holders=()), MEMBER).params["victims"] == ""
    own = replace(waits, params={"victims": "wl_1", "victim_count": 1})
    assert scoped_reason(own, MEMBER).params == own.params
    assert scoped_reason(waits, OPERATOR) is waits

"""What a route decides about a request, and what happens above a limit that a queue declares."""

from __future__ import annotations

import pytest

from steelyard.model.errors import RefusedError
from steelyard.model.ids import parse
from steelyard.services.declared import apply as apply_declared
from steelyard.services.documents import parse_document
from steelyard.services.queues import queue_page
from steelyard.services.refusals import show
from steelyard.services.submission import Submitted
from steelyard.services.workloads import Desk, submit
from tests.support.stores import apply, doc
from tests.support.worlds import ANN, ROOT, SYSTEM, workload

ROUTE = {"project": "vision", "queue": "main", "priorityClass": "normal"}


def planned(desk: Desk, **spec: object) -> Submitted:
    found = desk.plan(ANN, workload("job", "vision-dev", **spec))
    assert isinstance(found, Submitted)
    return found


@pytest.mark.requirement("E1", "E8")
@pytest.mark.parametrize(("fixed", "asked"), [(False, True), (True, False)])
def test_a_route_that_fixes_preemption_holds_whatever_the_workload_says(
    desk: Desk, fixed: bool, asked: bool
) -> None:
    apply(desk.store, doc("Routing", "default", routes=[{**ROUTE, "preemptible": fixed}]))
    admitted = planned(desk, preemptible=asked).admitted
    assert (admitted.spec.preemptible, admitted.shape.preemptible) == (fixed, fixed)


def test_without_such_a_route_the_workload_says_whether_it_can_be_preempted(desk: Desk) -> None:
    assert planned(desk, preemptible=False).admitted.shape.preemptible is False
    assert planned(desk).admitted.shape.preemptible is True


def test_a_shape_knows_its_user_its_priority_class_and_its_time_limit(desk: Desk) -> None:
    shape = planned(desk, timeLimit="1h").admitted.shape
    assert (shape.user, shape.priority_class, shape.time_limit) == ("ann", "normal", 3_600_000_000)


@pytest.mark.requirement("E13", "J3")
@pytest.mark.parametrize("owner", ["main", "all"])
def test_a_queue_or_cohort_may_refuse_what_exceeds_its_limit_now(desk: Desk, owner: str) -> None:
    limits = [{"class": "gpu", "nominal": 2, "borrowingLimit": 0, "onExceed": "refuse"}]
    cohort = doc("Cohort", "all", **({"limits": limits} if owner == "all" else {}))
    queue = doc("Queue", "main", cohort="all", **({"limits": limits} if owner == "main" else {}))
    apply(desk.store, cohort, queue)
    with desk.store.read() as view:
        version = desk.snapshots.full(view, 0)[1].version
    with pytest.raises(RefusedError) as caught:
        submit(desk, ANN, workload("job", count=3))
    assert {reason.code for reason in caught.value.reasons} == {"exceeds-max-quota"}
    assert {reason.owner for reason in caught.value.reasons} >= {owner}
    recorded = show(desk.store, ROOT, parse("refusal", str(caught.value.params["refusal"])))
    assert recorded["policy_version"] == version


@pytest.mark.requirement("E14")
def test_every_queue_has_somebody_to_ask(desk: Desk) -> None:
    store = desk.store
    (main,) = [node for node in queue_page(store, ROOT) if node["name"] == "main"]
    assert main["owner"] == "administrators"
    (said,) = apply(store, doc("Queue", "main", limits=[{"class": "npu", "nominal": 1}]))
    assert [warning.code for warning in said.warnings] == ["queue-without-owner"]
    apply(store, doc("Cohort", "all", owner="ann"))
    (said,) = apply_declared(store, SYSTEM, [parse_document(doc("Queue", "main", cohort="all"))])
    assert said.warnings == ()
    owners = {node["name"]: node["owner"] for node in queue_page(store, ANN)}
    assert owners == {"all": "ann", "main": "ann"}

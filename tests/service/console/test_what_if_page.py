"""The page that asks what would come of a change: the form, the answer, who may ask what."""

from __future__ import annotations

import pytest

from tests.support.console_floor import Floor

JOB = """
kind: Workload
metadata: {name: imagined, namespace: detect-dev}
spec: {kind: training, roles: [{name: main, command: ["true"], requests: {gpu: %s}}]}
"""


def asked(floor: Floor, name: str, **form: str) -> str:
    answer = floor.as_(name).post("/what-if", form)
    assert answer.status_code == 200, answer.text
    return answer.text


def test_an_operator_may_ask_about_limits_devices_nodes_and_work(floor: Floor) -> None:
    page = floor.as_("root").get("/what-if").text
    assert 'value="queue/main"' in page
    found = asked(floor, "root", node="queue/main", subject="gpu", value="0")
    assert "What would come of it" in found
    assert 'value="0"' in found  # what was asked stands in the form again


def test_nothing_is_written_by_asking(floor: Floor) -> None:
    before = floor.house.store.writer.state.size
    found = asked(floor, "root", document=JOB % 1, copies="2")
    assert "imagined" in found
    assert floor.house.store.writer.state.size == before
    assert "imagined" not in floor.as_("root").get("/workloads").text


@pytest.mark.requirement("J12")
def test_a_member_asks_for_work_of_its_own_and_sees_no_form_for_more(floor: Floor) -> None:
    page = floor.as_("tom").get("/what-if").text
    assert 'name="cordon"' not in page
    assert floor.as_("tom").post("/what-if", {"cordon": "n1"}).status_code == 403


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"flavor": "a100", "count": "many"},
        {"flavor": "a100", "count": "٣"},
        {"document": "- ["},
        {"node": "queue/main", "value": "1"},
    ],
    ids=["nothing", "not a number", "digits of another script", "not YAML", "no subject"],
)
def test_a_form_that_makes_no_sense_is_told_what_is_wrong(floor: Floor, form: dict[str, str]) -> None:
    answer = floor.as_("root").post("/what-if", form)
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text


def test_what_is_imagined_is_called_by_its_name_where_it_holds_something(floor: Floor) -> None:
    found = asked(floor, "root", document=JOB % 1)
    assert "Held by imagined (1" in found


@pytest.mark.requirement("J9")
def test_who_would_leave_for_a_lowered_limit_is_told(floor: Floor) -> None:
    lowered = """
kind: Queue
metadata: {name: main}
spec:
  cohort: all
  owner: platform
  limits: [{class: gpu, nominal: 0, borrowingLimit: 0, onLowered: Reclaim}]
"""
    found = asked(floor, "root", document=lowered)
    assert "Limits that would be passed" in found
    assert "above by" in found

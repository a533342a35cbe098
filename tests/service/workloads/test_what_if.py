"""Questions about changes: who may ask what, what is told of others, and what is wrong in a question."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.evidence.leaf import ActorRef
from steelyard.model.errors import ForbiddenError, InvalidError, NotFoundError
from steelyard.services import what_if
from steelyard.services.what_if import MAX_CHANGES, MAX_COPIES, ask
from steelyard.services.workloads import Desk, submit
from steelyard.store import tables as t
from steelyard.store.unit import Unit
from tests.support.stores import doc
from tests.support.worlds import ANN, BOB, EVE, ROOT, workload

Json = dict[str, Any]
SPEECH = ("two", "speech-dev")


def submitted(found: Json) -> list[str]:
    """What becomes of each copy."""
    return [row["would"] for row in found["submitted"]]


def test_a_member_asks_what_would_come_of_own_work(desk: Desk) -> None:
    found = ask(desk, ANN, [{"submit": workload()}])
    assert submitted(found) == ["start"]
    assert found["submitted"][0]["placement"][0]["node"] == "sim-0"
    assert found["counts"]["before"]["starts"] == 0


def test_others_have_no_name_for_a_member(desk: Desk) -> None:
    for number in range(2):
        submit(desk, BOB, workload(f"theirs{number}", "speech-dev"))
    asked = [{"submit": workload(requests={"cpu": 1, "memory": 256, "gpu": 3}, priorityClass="high")}]
    told, whole = ask(desk, ANN, asked), ask(desk, ROOT, asked)
    assert told["changed_count"] == whole["changed_count"] == 1
    row = told["changed"][0]
    assert {row[key] for key in ("id", "name", "project", "queue", "priority", "placement")} == {None}
    assert whole["changed"][0]["name"] == "theirs1"
    assert "theirs" not in str(told)


def test_a_member_asks_about_nothing_but_submits_to_own_projects(desk: Desk) -> None:
    for change in ({"cordon": "sim-0"}, {"add_devices": {"flavor": "card", "count": 1}}, {"documents": []}):
        with pytest.raises(ForbiddenError):
            ask(desk, ANN, [change])
    assert submitted(ask(desk, ANN, [{"submit": workload(*SPEECH)}])) == ["refuse"]
    with pytest.raises(ForbiddenError):
        ask(desk, EVE, [{"submit": workload()}])


@pytest.mark.requirement("E13")
def test_what_could_never_start_or_exceeds_its_limit_would_be_refused(desk: Desk) -> None:
    many = workload(requests={"cpu": 1, "memory": 256, "gpu": 4})
    (row,) = ask(desk, ANN, [{"submit": many}])["submitted"]
    assert row["would"] == "refuse"
    assert row["reasons"]


def test_a_limit_that_is_imagined_lets_in_what_would_be_refused(desk: Desk) -> None:
    many = {"submit": workload(requests={"cpu": 1, "memory": 256, "gpu": 4})}
    limit = {"limit": {"node": "project/vision", "subject": "gpu", "value": 4}}
    assert submitted(ask(desk, ROOT, [limit, many])) == ["start"]


def test_copies_are_placed_one_after_the_other(desk: Desk) -> None:
    found = ask(desk, ROOT, [{"submit": {"document": workload(*SPEECH), "copies": 3}}])
    assert submitted(found) == ["start", "start", "wait"]  # the project may have two
    assert found["submitted"][2]["reasons"]


def test_documents_are_laid_over_those_in_force(desk: Desk) -> None:
    stopped = doc("Queue", "main", stopped=True)
    assert submitted(ask(desk, ROOT, [{"documents": [stopped]}, {"submit": workload()}])) == ["wait"]
    assert submitted(ask(desk, ROOT, [{"submit": workload()}])) == ["start"]


def test_work_is_routed_by_documents_that_are_imagined(desk: Desk) -> None:
    small = doc("Queue", "small", limits=[{"class": "gpu", "nominal": 1, "borrowingLimit": 0}])
    routes = [{"project": "vision", "queue": "small", "priorityClass": "normal"}]
    rules = {"documents": [small, doc("Routing", "default", routes=routes)]}
    two = {"submit": {"document": workload(), "copies": 2}}
    assert submitted(ask(desk, ROOT, [two])) == ["start", "start"]
    assert submitted(ask(desk, ROOT, [two, rules])) == ["start", "wait"]


def test_new_devices_stand_on_new_nodes_like_the_largest(desk: Desk) -> None:
    limit = {"limit": {"node": "project/vision", "subject": "gpu", "value": 16}}
    wide = {"submit": workload(count=3, requests={"cpu": 1, "memory": 256, "gpu": 4})}
    found = ask(desk, ROOT, [limit, {"add_devices": {"flavor": "card", "count": 9}}, wide])
    assert found["added_nodes"] == ["sim-0+1", "sim-0+2", "sim-0+3"]  # of four, four and one
    assert submitted(found) == ["start"]
    nodes = {member["node"] for member in found["submitted"][0]["placement"]}
    assert nodes == {"sim-0", "sim-0+1", "sim-0+2"}


def test_on_a_cordoned_node_nothing_starts(desk: Desk) -> None:
    found = ask(desk, ROOT, [{"cordon": "sim-0"}, {"submit": workload()}])
    assert submitted(found) == ["wait"]


def test_the_end_of_a_workload_lets_others_start(desk: Desk) -> None:
    view = submit(desk, ANN, workload())
    found = ask(desk, ROOT, [{"end": view["id"]}])
    assert [(row["before"], row["after"]) for row in found["changed"]] == [("starts", "absent")]


def test_asking_writes_nothing(desk: Desk) -> None:
    before = _rows(desk)
    ask(desk, ROOT, [{"submit": workload(requests={"gpu": 99})}, {"submit": workload()}, {"cordon": "sim-0"}])
    assert _rows(desk) == before


def _rows(desk: Desk) -> dict[str, int]:
    unit = Unit(ActorRef("system", "system"))
    assert not unit.writes
    with desk.store.read() as view:
        return {table.name: len(view.execute(table.select()).all()) for table in t.metadata.sorted_tables}


WRONG: list[Any] = [
    None, [], "x", [None], [{}], [{"nothing": 1}], [{"cordon": "sim-0", "uncordon": "sim-0"}],
    [{"cordon": 7}], [{"cordon": ""}], [{"limit": 1}], [{"limit": {"node": "project/vision"}}],
    [{"limit": {"node": "project/vision", "subject": "gpu", "value": "many"}}],
    [{"limit": {"node": "project/vision", "subject": "gpu/whales", "value": 1}}],
    [{"limit": {"node": "project/vision", "subject": "flavor/none", "value": 1}}],
    [{"limit": {"node": "project/vision", "subject": "gpu", "value": -1}}],
    [{"add_devices": {"flavor": "card", "count": 0}}],
    [{"add_devices": {"flavor": "card", "count": True}}],
    [{"add_devices": {"flavor": "card", "count": 10**12}}],
    [{"add_devices": {"flavor": "sim-memory", "count": 1}}],
    [{"documents": [{"kind": "Pool"}]}], [{"documents": 5}], [{"submit": 5}], [{"submit": {}}],
    [{"submit": {"document": {}, "copies": MAX_COPIES + 1}}], [{"end": "x"}],
    [{"documents": [doc("Template", "t", version="1", spec={})]}],
    [{"cordon": "sim-0"}] * (MAX_CHANGES + 1),
]  # fmt: skip
MISSING: list[Json] = [
    {"cordon": "nowhere"}, {"uncordon": "nowhere"}, {"add_devices": {"flavor": "none", "count": 1}},
    {"limit": {"node": "project/none", "subject": "gpu", "value": 1}},
    {"limit": {"node": "nothing", "subject": "gpu", "value": 1}}, {"end": "wl_0000000000000"},
]  # fmt: skip


def test_what_is_wrong_in_a_question_is_said(desk: Desk) -> None:
    for changes in WRONG:
        with pytest.raises(InvalidError):
            ask(desk, ROOT, changes)


def test_all_submits_of_a_question_together_are_bounded(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(what_if, "MAX_IMAGINED", 4)
    array = workload(array={"completions": 3, "parallelism": 3}, kind="batch")
    for document, copies in ((workload(), 3), (array, 1)):
        asked = {"submit": {"document": document, "copies": copies}}
        assert len(submitted(ask(desk, ROOT, [asked]))) == 3
        with pytest.raises(InvalidError):
            ask(desk, ROOT, [asked, asked])


def test_what_is_not_there_is_said(desk: Desk) -> None:
    for change in MISSING:
        with pytest.raises(NotFoundError):
            ask(desk, ROOT, [change])

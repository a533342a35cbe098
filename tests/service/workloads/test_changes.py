"""Cancel, retry, hold and release: what each changes, who may, and what a changed row does to them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import select

from steelyard.evidence.leaf import ActorRef
from steelyard.model.errors import ConflictError, ForbiddenError, NotFoundError, RefusedError
from steelyard.model.ids import parse
from steelyard.model.organisation import RoleName
from steelyard.services.workloads import Desk, cancel, hold, release, retry, show, submit
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_size
from steelyard.store.unit import Unit
from tests.support.stores import Clock, apply, doc
from tests.support.worlds import ANN, BOB, EVE, ROOT, person, workload

LATER = 5_000_000


def submitted(desk: Desk, **spec: Any) -> int:
    return parse("workload", submit(desk, ANN, workload("job", **spec))["id"])


def last_leaf(desk: Desk) -> dict[str, Any]:
    with desk.store.read() as view:
        size = log_size(view)
        (body,) = bodies(view, size - 1, size)
    found: dict[str, Any] = json.loads(body)
    return found


def force(desk: Desk, workload_id: int, phase: str, outcome: str | None = None) -> None:
    """Puts a workload in a phase, as the control loop would."""
    unit = Unit(ActorRef("control", "control"))
    unit.update(t.workload, {"id": workload_id}, phase=phase, outcome=outcome)
    unit.update(t.attempt, {"workload_id": workload_id}, phase=phase, outcome=outcome)
    desk.store.writer.write(unit)


@pytest.mark.requirement("D13")
def test_a_workload_that_waits_is_withdrawn_at_once_and_its_wait_tiles(desk: Desk, clock: Clock) -> None:
    number = submitted(desk)
    begun = clock.at
    clock.forward(LATER)
    view = cancel(desk, ANN, number)
    assert (view["phase"], view["outcome"], view["finished_at"]) == ("finished", "withdrawn", clock.at)
    (attempt,) = view["attempts"]
    assert attempt["times"]["ended"] == attempt["times"]["release_confirmed"] == clock.at
    assert attempt["waits"] == [{"reason": "evaluation", "t0": begun, "t1": clock.at}]
    assert attempt["tiles"] == []
    leaf = last_leaf(desk)
    assert leaf["action"] == "workload.withdraw"
    assert leaf["transitions"] == [{"at": clock.at, "from": "queued", "sub": None, "to": "finished"}]


def test_the_wait_of_a_withdrawn_workload_is_booked_by_the_reasons_of_its_shape(
    desk: Desk, clock: Clock
) -> None:
    number = submitted(desk)
    begun = clock.at
    with desk.store.read() as view:
        shape = view.execute(select(t.workload.c.shape_id)).scalar_one()
    unit = Unit(ActorRef("control", "control"))
    unit.insert(
        t.shape_reason, shape_id=shape, t0=begun + 1, t1=None, cycle_id=1, approximate=False,
        reasons_json='[{"code":"waiting-for-quota","stage":"quota"}]',
    )  # fmt: skip
    desk.store.writer.write(unit)
    clock.forward(LATER)
    waits = cancel(desk, ANN, number)["attempts"][0]["waits"]
    assert [wait["reason"] for wait in waits] == ["evaluation", "quota"]
    assert (waits[0]["t0"], waits[0]["t1"], waits[1]["t1"]) == (begun, waits[1]["t0"], clock.at)


@pytest.mark.parametrize("phase", ["reserved", "starting", "running", "stopping", "releasing"])
def test_a_workload_that_has_something_is_asked_to_stop(desk: Desk, phase: str) -> None:
    number = submitted(desk)
    force(desk, number, phase)
    view = cancel(desk, ANN, number)
    assert (view["phase"], view["version"], view["cancel_requested_at"] is not None) == (phase, 2, True)
    leaf = last_leaf(desk)
    assert (leaf["action"], leaf["transitions"]) == ("workload.cancel-requested", [])
    assert cancel(desk, ANN, number)["version"] == 2


def test_a_finished_workload_is_not_cancelled(desk: Desk) -> None:
    number = submitted(desk)
    cancel(desk, ANN, number)
    with pytest.raises(ConflictError, match="workload-finished"):
        cancel(desk, ANN, number)


@pytest.mark.requirement("D15", "E11")
@pytest.mark.parametrize("outcome", ["failed", "lost", "timed-out", "cancelled", "withdrawn"])
def test_a_retry_is_a_new_attempt_and_the_first_submit_time_stays(
    desk: Desk, clock: Clock, outcome: str
) -> None:
    number = submitted(desk)
    begun = clock.at
    force(desk, number, "finished", outcome)
    clock.forward(LATER)
    view = retry(desk, ANN, number)
    assert (view["phase"], view["outcome"], view["attempt"]) == ("queued", None, 2)
    assert (view["submitted_at"], view["finished_at"]) == (begun, None)
    first, second = view["attempts"]
    assert (first["outcome"], first["times"]["submitted"]) == (outcome, begun)
    assert (second["number"], second["phase"], second["times"]["submitted"]) == (2, "queued", clock.at)
    leaf = last_leaf(desk)
    assert (leaf["action"], leaf["detail"]["attempt"]) == ("workload.retry", 2)


@pytest.mark.parametrize(("phase", "outcome"), [("running", None), ("finished", "succeeded")])
def test_what_runs_or_succeeded_is_not_retried(desk: Desk, phase: str, outcome: str | None) -> None:
    number = submitted(desk)
    force(desk, number, phase, outcome)
    with pytest.raises(ConflictError, match="retry-not-allowed"):
        retry(desk, ANN, number)


@pytest.mark.requirement("E13")
def test_a_retry_that_could_never_start_now_is_refused_and_recorded(desk: Desk) -> None:
    number = submitted(desk)
    cancel(desk, ANN, number)
    apply(desk.store, doc("Quota", "vision", project="vision", limits=[{"class": "gpu", "hard": 0}]))
    with pytest.raises(RefusedError):
        retry(desk, ANN, number)
    assert last_leaf(desk)["action"] == "workload.retry"
    assert last_leaf(desk)["outcome"] == "refused"


def test_hold_and_release_change_the_phase_and_the_eligible_time(desk: Desk, clock: Clock) -> None:
    number = submitted(desk)
    held = hold(desk, ANN, number)
    assert (held["phase"], held["attempts"][0]["times"]["eligible"]) == ("held", None)
    clock.forward(LATER)
    free = release(desk, ANN, number)
    assert (free["phase"], free["attempts"][0]["times"]["eligible"]) == ("queued", clock.at)
    assert release(desk, ANN, number)["version"] == free["version"]


def test_what_runs_is_not_held(desk: Desk) -> None:
    number = submitted(desk)
    force(desk, number, "running")
    with pytest.raises(ConflictError, match="transition-not-allowed"):
        hold(desk, ANN, number)


def test_each_change_continues_the_stream_of_its_object(desk: Desk) -> None:
    number = submitted(desk)
    hold(desk, ANN, number)
    release(desk, ANN, number)
    cancel(desk, ANN, number)
    with desk.store.read() as view:
        found = [json.loads(body) for body in bodies(view, 0, log_size(view))]
    own = [
        stream["n"]
        for leaf in found
        for stream in leaf["streams"]
        if leaf["object"]["kind"] == "workload" and stream["name"].startswith("object/workload/")
    ]
    assert own == [0, 1, 2, 3]


def test_a_named_version_that_is_not_the_current_one_is_a_conflict(desk: Desk) -> None:
    number = submitted(desk)
    assert hold(desk, ANN, number, if_match=1)["version"] == 2
    with pytest.raises(ConflictError, match="version-mismatch"):
        release(desk, ANN, number, if_match=1)


def test_a_row_that_changed_meanwhile_is_read_again(desk: Desk) -> None:
    number = submitted(desk)
    moved: list[int] = []

    def overtake(_unit: Unit, _name: str) -> None:
        if not moved:
            moved.append(1)
            other = Unit(ActorRef("control", "control"))
            other.update(t.workload, {"id": number, "version": 1}, version=2)
            desk.store.writer.write(other)

    assert hold(desk, ANN, number, on_unit=overtake)["version"] == 3


def test_a_row_that_changed_meanwhile_is_a_conflict_where_a_version_was_named(desk: Desk) -> None:
    number = submitted(desk)

    def overtake(_unit: Unit, _name: str) -> None:
        other = Unit(ActorRef("control", "control"))
        other.update(t.workload, {"id": number, "version": 1}, version=2)
        desk.store.writer.write(other)

    with pytest.raises(ConflictError):
        hold(desk, ANN, number, if_match=1, on_unit=overtake)


def test_who_may_not_see_a_workload_is_told_that_it_is_not_there(desk: Desk) -> None:
    number = submitted(desk)
    for act in (show, cancel, hold, retry):
        with pytest.raises(NotFoundError):
            act(desk, BOB, number)


@pytest.mark.requirement("K2")
def test_a_viewer_changes_nothing_and_a_member_changes_only_its_own(desk: Desk) -> None:
    number = submitted(desk)
    for other in (EVE, person("carl", RoleName.MEMBER, "vision", 9)):
        with pytest.raises(ForbiddenError) as caught:
            cancel(desk, other, number)
        leaf = last_leaf(desk)
        assert (leaf["action"], leaf["outcome"]) == ("workload.cancel", "refused")
        assert leaf["object"]["id"] == caught.value.params["refusal"]
        assert leaf["actor"]["id"] == other.id
    assert cancel(desk, ROOT, number)["outcome"] == "withdrawn"

"""Stored cycles: listed for those who may see everything, and decided again by the same `decide`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.evidence.leaf import ActorRef
from steelyard.model.errors import ForbiddenError, NotFoundError
from steelyard.model.ids import render
from steelyard.model.policy import Policy
from steelyard.scheduling import Snapshot, decide
from steelyard.services.cycles import compare, cycle_list, decisions_body, replay_cycle, show
from steelyard.services.workloads import Desk, submit
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.unit import Unit
from tests.support.worlds import ANN, BOB, ROOT, workload


class Past:
    """The snapshot that a cycle worked on, as a test kept it."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        self.kept = snapshot, policy, now

    def as_of(self, connection: View, cycle_id: int) -> tuple[Snapshot, Policy, int]:
        """What was kept."""
        return self.kept


def decided(desk: Desk) -> tuple[int, Past]:
    """A cycle over what waits now, stored as the loop stores it."""
    now = desk.store.now()
    with desk.store.read() as view:
        snapshot, policy = desk.snapshots.full(view, now)
    decisions = decide(snapshot, policy, now)
    number = desk.store.ids.next()
    unit = Unit(ActorRef("control", "control"))
    unit.insert(
        t.cycle, id=number, at=now, log_size=7, last_hash=b"\x01" * 32, observations_json="{}",
        policy_version=policy.version, decisions_json=decisions_body(decisions), reasons_json="[]",
    )  # fmt: skip
    desk.store.writer.write(unit)
    return number, Past(snapshot, policy, now)


@pytest.mark.requirement("A1")
def test_a_cycle_decided_again_gives_the_same(desk: Desk) -> None:
    submit(desk, ANN, workload("first"))
    submit(desk, BOB, workload("second", "speech-dev", count=2))
    number, past = decided(desk)
    replayed = replay_cycle(desk.store, ROOT, past, number)
    assert replayed == {"same": True, "differences": [], "count": 0, "purged": False}
    body = show(desk.store, ROOT, number)
    assert len(body["decisions"]["placements"]) == 2
    assert body["last_hash"] == "01" * 32


def test_what_comes_out_differently_is_shown_on_both_sides(desk: Desk) -> None:
    submit(desk, ANN, workload())
    number, past = decided(desk)
    snapshot, policy, now = past.kept
    answer = replay_cycle(desk.store, ROOT, Past(replace(snapshot, nodes={}), policy, now), number)
    assert not answer["same"]
    (difference,) = answer["differences"]
    assert difference["part"] == "placements"
    assert difference["stored"] is not None
    assert difference["again"] is None


def test_entries_are_compared_whatever_their_order() -> None:
    one, two = {"attempt_id": 1}, {"attempt_id": 2}
    assert list(compare({"placements": [one, two]}, {"placements": [two, one]})) == []
    assert list(compare({}, {"evictions": [one]})) == [{"part": "evictions", "stored": None, "again": one}]
    assert list(compare({"evictions": [one]}, {"evictions": [{**one, "members": [], "limit": None}]})) == []


def test_cycles_are_listed_newest_first_in_pages(desk: Desk) -> None:
    numbers = [decided(desk)[0] for _ in range(3)]
    first, cursor = cycle_list(desk.store, ROOT, None, 2)
    rest, end = cycle_list(desk.store, ROOT, cursor, 2)
    assert [c["id"] for c in first + rest] == [render("cycle", number) for number in reversed(numbers)]
    assert end is None
    assert first[0]["counts"]["placements"] == 0


def test_a_member_of_a_project_sees_no_cycle(desk: Desk) -> None:
    number, past = decided(desk)
    with pytest.raises(ForbiddenError):
        cycle_list(desk.store, ANN, None, 5)
    with pytest.raises(ForbiddenError):
        replay_cycle(desk.store, ANN, past, number)
    with pytest.raises(NotFoundError):
        show(desk.store, ROOT, 1)

"""Safe bundles: an elastic gang gives up members before anybody is stopped altogether."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.workloads import Shape
from steelyard.scheduling import Decisions, Snapshot, decide
from steelyard.scheduling.changes import without_attempts
from steelyard.scheduling.forward import Expected, Forward
from steelyard.scheduling.what_if import Fate, what_if
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    group,
    item,
    min_runtime,
    node,
    nominal,
    placed,
    queue_tree,
    recomputed,
    request,
    running,
    shape,
    snapshot,
    started,
)


def gang(count: int, least: int, gpu: int = 1000, key: str = "gang", **more: object) -> Shape:
    """One role of so many members, of which `least` are enough."""
    return replace(shape(key, request(gpu=gpu), count=count, **more), least=(least,))  # type: ignore[arg-type]


def wanted(gpu: int = 1000, count: int = 1, priority: int = 10, **more: object) -> Shape:
    return shape("wanted", request(gpu=gpu), count=count, priority=priority, **more)  # type: ignore[arg-type]


def runs(*shapes: Shape, gpus: int = 4, nodes: int = 1, **fields: object) -> Snapshot:
    """Nodes on which these run, attempts numbered from 1."""
    base = snapshot([node(number, gpus=gpus) for number in range(1, nodes + 1)], **fields)
    for number, of in enumerate(shapes, 1):
        base = started(base, group(of, item(number)))
    return base


def asks(base: Snapshot, of: Shape, policy: object = POLICY, number: int = 50) -> Decisions:
    """What is decided once this waits, too."""
    base = replace(base, pending=(group(of, item(number)),))
    decisions = decide(base, policy, NOW)  # type: ignore[arg-type]
    check_answer(base, decisions)
    return decisions


def lost(decisions: Decisions) -> list[tuple[int, list[int]]]:
    """(attempt, indexes of the members that it loses; empty: all)."""
    return [(one.attempt_id, [gone.index for gone in one.members]) for one in decisions.evictions]


@pytest.mark.requirement("C9")
def test_a_gang_gives_up_its_highest_member_and_goes_on() -> None:
    base = runs(gang(4, 2))
    decisions = asks(base, wanted())
    assert lost(decisions) == [(1, [3])]
    after = replace(base, pending=(group(wanted(), item(50)),)).apply(decisions)
    assert [member.index for member in after.running[1].members] == [0, 1, 2]
    assert not after.running[1].stopping
    (part,) = (run for key, run in after.running.items() if key != 1)
    assert (part.stopping, part.workload_id, len(part.members)) == (True, 1, 1)
    assert {**after.usage} == recomputed(after)
    (hold,) = after.holds.values()
    assert hold.victims == (part.attempt_id,)


def test_the_place_of_a_member_goes_to_whom_it_left_for_and_to_nobody_else() -> None:
    base = replace(runs(gang(4, 2)), pending=(group(wanted(), item(50)),))
    after = base.apply(decide(base, POLICY, NOW))
    other = group(shape("other", request(gpu=1000)), item(60))
    waiting = replace(after, pending=(other,))
    assert placed(decide(waiting, POLICY, NOW + 1)) == []
    gone = without_attempts(waiting, [key for key, run in after.running.items() if run.stopping])
    decisions = decide(gone, POLICY, NOW + 2)
    assert placed(decisions) == [50]
    assert len(gone.apply(decisions).running[1].members) == 3


def test_members_go_before_single_work_of_a_lower_priority_is_stopped() -> None:
    base = runs(gang(3, 1, priority=5), shape("single", request(gpu=1000)))
    assert lost(asks(base, wanted(gpu=2000))) == [(1, [2, 1])]


def test_what_is_left_of_a_gang_goes_as_a_whole_where_its_members_do_not_suffice() -> None:
    assert lost(asks(runs(gang(4, 2)), wanted(gpu=3000))) == [(1, [])]


def test_of_two_gangs_both_give_members_before_one_ends() -> None:
    base = runs(gang(4, 2), gang(4, 2, key="other"), gpus=8)
    found = dict(lost(asks(base, wanted(gpu=4000))))
    assert found == {1: [3, 2], 2: [3, 2]}


def test_a_member_that_is_needed_from_below_takes_those_above_it_along() -> None:
    """Its highest member is on another node, where it makes no room."""
    base = snapshot([node(1, gpus=2), node(2, gpus=2)])
    base = started(base, group(gang(3, 1), item(1)))
    base = started(base, group(shape("keep", request(gpu=1000), preemptible=False), item(2)))
    assert [member.node_id for member in base.running[1].members] == [1, 1, 2]
    assert lost(asks(base, wanted())) == [(1, [2])]
    on_first = replace(wanted(), roles=(("role0", 1, request(gpu=1000, node_labels=(("at", "1"),))),))
    labelled = replace(base, nodes={
        key: replace(view, labels={"at": str(key)}) for key, view in base.nodes.items()
    })  # fmt: skip
    assert lost(asks(labelled, on_first)) == [(1, [2, 1])]


def test_members_are_not_protected_by_the_time_that_a_victim_must_have_run() -> None:
    base = running(runs(gang(4, 2)), 1, placed_at=NOW - 5)
    assert lost(asks(base, wanted(gpu=2000), min_runtime(6))) == [(1, [3, 2])]
    assert lost(asks(base, wanted(gpu=3000), min_runtime(6))) == []


def test_a_gang_that_may_not_be_preempted_keeps_its_members() -> None:
    assert lost(asks(runs(gang(4, 2, preemptible=False)), wanted())) == []


def test_the_next_asks_for_the_next_member_while_one_still_stops() -> None:
    base = replace(runs(gang(4, 2)), pending=(group(wanted(), item(50)),))
    after = base.apply(decide(base, POLICY, NOW))
    assert lost(asks(after, replace(wanted(), key="more"), number=51)) == [(1, [2])]


def test_what_was_borrowed_comes_back_by_members() -> None:
    limits = nominal("q", "gpu", 2000) | nominal("r", "gpu", 2000)
    base = runs(gang(4, 1), queues=queue_tree(limits, ("q", "r")))
    decisions = asks(base, wanted(gpu=1000, count=2, priority=0, queue="r"))
    assert lost(decisions) == [(1, [3, 2])]
    assert {one.rule for one in decisions.evictions} == {"reclaim"}


def test_no_member_goes_that_its_queue_owns() -> None:
    limits = nominal("q", "gpu", 3000) | nominal("r", "gpu", 1000)
    base = runs(gang(4, 1), queues=queue_tree(limits, ("q", "r")))
    assert lost(asks(base, wanted(gpu=2000, priority=0, queue="r"))) == []
    assert lost(asks(base, wanted(gpu=1000, priority=0, queue="r"))) == [(1, [3])]


@settings(max_examples=60, deadline=None)
@given(
    gangs=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4),
    free=st.integers(0, 2), asked=st.integers(1, 8), scattered=st.booleans(),
)  # fmt: skip
def test_nobody_ends_where_members_suffice(
    gangs: list[tuple[int, int]], free: int, asked: int, scattered: bool
) -> None:
    shapes = [gang(most, min(most, least), key=f"g{number}") for number, (most, least) in enumerate(gangs)]
    held = sum(count for of in shapes for _, count, _ in of.roles)
    each = 1 if scattered else held + free
    base = runs(*shapes, gpus=each, nodes=(held + free) // each)
    spare = held - sum(of.least[0] for of in shapes)
    decisions = asks(base, wanted(count=asked) if scattered else wanted(gpu=asked * 1000))
    found = lost(decisions)
    if asked <= free + spare:
        assert all(members for _, members in found)
        assert sum(len(members) for _, members in found) == max(0, asked - free)
    elif asked <= held + free:
        assert any(not members for _, members in found)


def test_a_what_if_shows_a_gang_that_loses_members_as_running() -> None:
    base = replace(runs(gang(4, 2)), pending=(group(wanted(), item(50)),))
    course = what_if(base, POLICY, NOW, ()).after
    assert course.fates() == {1: Fate.SHRINKS, 50: Fate.HELD}
    assert lost(course) == [(1, [3])]  # type: ignore[arg-type]


def test_in_the_future_a_member_that_leaves_makes_room_and_comes_not_back() -> None:
    base = replace(runs(gang(4, 2)), pending=(group(wanted(), item(50)),))
    future = Forward(base, POLICY, NOW, Expected({}, lambda _shape, _item: None, stop=5)).run(20)
    assert future.first == {50: NOW + 5}
    assert len(future.after.running[1].members) == 3
    assert not future.after.pending

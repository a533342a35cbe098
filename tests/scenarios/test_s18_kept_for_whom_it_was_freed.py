"""S-18: what becomes free is kept for whom it was freed, although victims end at different times."""

from __future__ import annotations

from dataclasses import replace

from steelyard.scheduling import DropCause, Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

SECOND = 1_000_000
QUEUES = ("a", "b", "c")


def reclaiming() -> Snapshot:
    """`a` takes two of its devices back from `b`, which has all four; both victims still stop."""
    limits = {**nominal("a", "gpu", 2000), **nominal("b", "gpu", 1000), **nominal("c", "gpu", 1000)}
    base = snapshot([node(1, gpus=4)], queues=queue_tree(limits, QUEUES))
    base = started(base, group(shape("b", request(gpu=1000), queue="b"), *(item(n) for n in range(1, 5))))
    base = replace(base, pending=(group(shape("a", request(gpu=2000), queue="a"), item(50)),))
    decisions = decide(base, policy(), NOW)
    assert len(decisions.evictions) == 2
    return check_answer(base, decisions)


def test_a_third_queue_does_not_take_the_first_part_that_becomes_free() -> None:
    base = reclaiming()
    first, second = base.holds[50].victims
    thief = shape("c", request(gpu=1000), queue="c", priority=0)
    base = replace(ended(base, first), pending=(group(thief, item(70)),))
    decisions = decide(base, policy(), NOW + SECOND)
    assert placed(decisions) == []
    assert [e.preemptor_attempt_id for e in decisions.evictions] == [70]  # it owns one, and takes that back
    base = ended(check_answer(base, decisions), second)
    decisions = decide(base, policy(), NOW + 2 * SECOND)
    assert placed(decisions)[0] == 50
    assert decisions.placements[0].from_hold


def test_the_preemptor_evicts_nobody_else_while_it_waits() -> None:
    base = reclaiming()
    base = ended(base, base.holds[50].victims[0])
    for step in range(1, 4):
        decisions = decide(base, policy(), NOW + step * SECOND)
        assert not decisions.changes_state
        base = check_answer(base, decisions)


def test_a_still_higher_priority_takes_the_hold_over_and_the_first_goes_back_with_everything() -> None:
    base = reclaiming()
    victims, held = base.holds[50].victims, dict(base.usage["queue"])
    high = shape("high", request(gpu=2000), queue="a", priority=9)
    base = replace(base, pending=(group(high, item(90)),))
    decisions = decide(base, policy(), NOW + SECOND)
    assert [(d.attempt_id, d.cause) for d in decisions.dropped_holds] == [(50, DropCause.TAKEN_OVER)]
    assert decisions.evictions == ()  # what stops already is enough
    assert [(hold.attempt_id, hold.victims) for hold in decisions.holds] == [(90, victims)]
    assert decisions.stats.more
    after = check_answer(base, decisions)
    assert dict(after.usage["queue"]) == held
    assert [each.heads[0].attempt_id for each in after.pending] == [50]
    after = ended(after, *victims)
    decisions = decide(after, policy(), NOW + 2 * SECOND)
    assert placed(decisions) == [90]
    assert decisions.evictions == ()  # its queue would borrow now


def test_an_equal_priority_waits_for_its_own() -> None:
    base = reclaiming()
    base = replace(base, pending=(group(shape("equal", request(gpu=2000), queue="a"), item(90)),))
    decisions = decide(base, policy(), NOW + SECOND)
    assert (decisions.dropped_holds, decisions.holds) == ((), ())

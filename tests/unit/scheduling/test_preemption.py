"""Preemption inside a queue: proven first, least victims, capacity kept for the preemptor."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.model.policy import PreemptionRule
from steelyard.model.reasons import ReasonCode
from steelyard.scheduling import (
    ClusterView,
    CordonNode,
    DropCause,
    FreeDevices,
    ShapeGroup,
    Snapshot,
    decide,
)
from steelyard.scheduling.context import HOLD_TIMER
from steelyard.scheduling.decide import LONGEST_PUT_OFF, PUT_OFF_FOR
from steelyard.scheduling.preemption import MAX_TRIES
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    codes,
    ended,
    group,
    item,
    min_runtime,
    node,
    nominal,
    org_tree,
    placed,
    policy,
    queue_tree,
    recomputed,
    request,
    running,
    shape,
    snapshot,
    started,
)

LOW = shape("low", request(gpu=1000))
HIGH = shape("high", request(gpu=1000), priority=10)
SECOND = 1_000_000


def waiting(base: Snapshot, *groups: ShapeGroup) -> Snapshot:
    return replace(base, pending=groups)


def full(gpus: int = 2, nodes: int = 1, **fields: object) -> Snapshot:
    """Nodes full of one-device work of low priority, attempts numbered from 1."""
    base = snapshot([node(number, gpus=gpus) for number in range(1, nodes + 1)], **fields)
    return started(base, group(LOW, *(item(n) for n in range(1, gpus * nodes + 1))))


@pytest.mark.requirement("E10")
def test_a_higher_priority_gets_a_hold_and_the_newest_lowest_victim_is_asked_to_stop() -> None:
    base = waiting(running(full(), 1, placed_at=5), group(HIGH, item(50)))
    decisions = decide(base, POLICY, NOW)
    assert base.running[2].placed_at > 5
    (eviction,) = decisions.evictions
    assert (eviction.attempt_id, eviction.preemptor_attempt_id) == (2, 50)
    assert [hold.attempt_id for hold in decisions.holds] == [50]
    assert placed(decisions) == []
    (reason,) = decisions.workload_reasons[50]
    assert reason.code == ReasonCode.WAITING_FOR_PREEMPTED
    assert (reason.short_by, len(reason.holders)) == (1000, 1)
    check_answer(base, decisions)


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"priority": 10}, POLICY),
        ({"preemptible": False}, POLICY),
        ({"placed_at": NOW - 5}, min_runtime(6)),
        ({"queue": "elsewhere"}, POLICY),
        ({}, policy(preemption=PreemptionRule(within_queue=False))),
    ],
    ids=["equal priority", "not preemptible", "ran too short", "another queue", "no preemption"],
)
def test_who_is_protected_is_not_evicted(changes: dict[str, object], rule: object) -> None:
    base = running(running(full(), 1, **changes), 2, **changes)
    base = waiting(base, group(HIGH, item(50)))
    decisions = decide(base, rule, NOW)  # type: ignore[arg-type]
    assert (decisions.evictions, decisions.holds) == ((), ())


def test_a_victim_that_ran_the_minimum_may_be_evicted() -> None:
    base = running(running(full(), 1, placed_at=NOW - 6), 2, placed_at=NOW - 5)
    base = waiting(base, group(HIGH, item(50)))
    assert [e.attempt_id for e in decide(base, min_runtime(6), NOW).evictions] == [1]


def test_lowest_priority_goes_first_then_the_newest() -> None:
    base = running(running(full(gpus=3), 1, priority=2), 2, priority=1, placed_at=7)
    base = running(base, 3, priority=1, placed_at=9)
    base = waiting(base, group(HIGH, item(50)))
    assert [e.attempt_id for e in decide(base, POLICY, NOW).evictions] == [3]


def test_whoever_may_stay_after_all_stays() -> None:
    """Newest first would take node 1's three, which don't make room for four together."""
    base = snapshot([node(1, gpus=3), node(2, gpus=4)])
    base = started(base, group(shape("four", request(gpu=4000)), item(9)), at=NOW - 2 * SECOND)
    base = started(base, group(LOW, item(1), item(2), item(3)), at=NOW - SECOND)
    base = waiting(base, group(shape("high", request(gpu=4000), priority=10), item(50)))
    decisions = decide(base, POLICY, NOW)
    assert [e.attempt_id for e in decisions.evictions] == [9]
    check_answer(base, decisions)


def test_a_small_victim_that_a_larger_one_makes_needless_stays() -> None:
    base = started(snapshot([node(1, gpus=4)]), group(shape("three", request(gpu=3000)), item(1)))
    base = started(base, group(LOW, item(2)), at=NOW - SECOND)
    base = waiting(base, group(shape("high", request(gpu=3000), priority=10), item(50)))
    assert [eviction.attempt_id for eviction in decide(base, POLICY, NOW).evictions] == [1]


def test_a_gang_of_whole_cores_counts_what_is_free_beside_its_victim() -> None:
    """Seven cores twice: of sixteen thirteen are free, and the victim has two."""
    base = snapshot([node(1, cpu=16_000)])
    base = started(base, group(shape("other", request(cpu=1000), priority=10), item(1)))
    base = started(base, group(shape("victim", request(cpu=1000), count=2), item(2)))
    gang = shape("gang", request(cpu=7000), count=2, priority=10)
    decisions = decide(waiting(base, group(gang, item(3))), POLICY, NOW)
    assert [eviction.attempt_id for eviction in decisions.evictions] == [2]


def test_no_victim_could_be_spared() -> None:
    base = waiting(full(gpus=4, nodes=2), group(shape("high", request(gpu=3000), priority=10), item(50)))
    decisions = decide(base, POLICY, NOW)
    assert len(decisions.evictions) == 3
    assert len({base.running[e.attempt_id].members[0].node_id for e in decisions.evictions}) == 1


def test_a_head_that_could_not_be_placed_afterwards_evicts_nobody() -> None:
    """S-19: eight devices on one node never come free where nodes have four."""
    base = waiting(full(gpus=4, nodes=4), group(shape("high", request(gpu=8000), priority=10), item(50)))
    for step in range(3):
        decisions = decide(base, POLICY, NOW + step * SECOND)
        assert (decisions.evictions, decisions.holds) == ((), ())
        base = base.apply(decisions)
    assert codes(decisions, "high") == [ReasonCode.EXCEEDS_CAPACITY]


def test_a_limit_above_the_queue_that_no_victim_relieves_evicts_nobody() -> None:
    limits = nominal("cohort", "gpu", 2000)
    queues = queue_tree(limits, ("q", "other"))
    base = snapshot([node(1, gpus=4)], queues=queues)
    base = started(base, group(replace(LOW, queue="other"), item(1), item(2)))
    base = waiting(base, group(HIGH, item(50)))
    decisions = decide(base, POLICY, NOW)
    assert (decisions.evictions, decisions.holds) == ((), ())
    assert codes(decisions, "high") == [ReasonCode.WAITING_FOR_QUOTA]


def test_too_little_quota_is_relieved_by_victims_of_the_queue_though_devices_are_free() -> None:
    base = snapshot([node(1, gpus=4)], queues=queue_tree(nominal("q", "gpu", 2000)))
    base = waiting(started(base, group(LOW, item(1), item(2))), group(HIGH, item(50)))
    decisions = decide(base, POLICY, NOW)
    assert len(decisions.evictions) == 1
    check_answer(base, decisions)


def test_more_victims_than_the_policy_allows_evicts_nobody() -> None:
    base = waiting(full(gpus=4), group(shape("high", request(gpu=4000), priority=10), item(50)))
    assert decide(base, policy(max_victims=3), NOW).evictions == ()
    assert len(decide(base, policy(max_victims=4), NOW).evictions) == 4


def test_the_queues_eviction_budget_is_kept() -> None:
    base = waiting(full(gpus=4), group(HIGH, item(50), item(51), item(52)))
    decisions = decide(base, policy(preemption=PreemptionRule(per_hour=2)), NOW)
    assert len(decisions.evictions) == 2
    assert [hold.attempt_id for hold in decisions.holds] == [50, 51]


def two_victims() -> Snapshot:
    """A preemptor of two devices holds the places of two victims that still stop."""
    base = full(gpus=2, nodes=1, queues=queue_tree(queues=("q", "other")), organisation=org_tree())
    base = waiting(base, group(shape("high", request(gpu=2000), priority=10), item(50)))
    after = check_answer(base, decide(base, POLICY, NOW))
    assert set(after.holds) == {50}
    return after


def test_what_one_victim_freed_is_held_for_the_preemptor_until_the_other_ends() -> None:
    """S-18: victims end at different times; another queue must not take the first freed part."""
    thief = replace(HIGH, key="thief", queue="other", priority=99)
    base = waiting(ended(two_victims(), 1), group(thief, item(70)))
    decisions = decide(base, POLICY, NOW + SECOND)
    assert (placed(decisions), decisions.evictions, decisions.holds) == ([], (), ())
    (reason,) = decisions.reasons["thief"].reasons
    assert (reason.code, reason.short_by) == (ReasonCode.WAITING_FOR_CAPACITY, 1000)
    after = ended(check_answer(base, decisions), 2)
    decisions = decide(after, POLICY, NOW + 2 * SECOND)
    (placement,) = decisions.placements
    assert (placement.attempt_id, placement.from_hold) == (50, True)
    assert placement.members == base.holds[50].members
    final = check_answer(after, decisions)
    assert final.holds == {}


def test_there_is_no_second_round_while_victims_still_stop() -> None:
    base = two_victims()
    for step in range(1, 4):
        decisions = decide(base, POLICY, NOW + step * SECOND)
        assert not decisions.changes_state
        assert decisions.workload_reasons[50][0].code == ReasonCode.WAITING_FOR_PREEMPTED
        base = base.apply(decisions)


def test_what_stops_anyway_is_waited_for_before_anybody_is_evicted() -> None:
    base = waiting(running(full(), 1, stopping=True), group(HIGH, item(50)))
    decisions = decide(base, POLICY, NOW)
    assert decisions.evictions == ()
    assert [hold.victims for hold in decisions.holds] == [(1,)]


def test_two_preemptors_never_share_what_one_victim_frees() -> None:
    base = waiting(running(full(), 1, stopping=True), group(HIGH, item(50), item(51)))
    decisions = decide(base, POLICY, NOW)
    assert [e.attempt_id for e in decisions.evictions] == [2]
    places = [a.device_id for hold in decisions.holds for m in hold.members for a in m.allocations]
    assert len(set(places)) == 2
    check_answer(base, decisions)


@pytest.mark.parametrize("stays", [True, False], ids=["stays", "vanished"])
def test_a_hold_whose_workload_vanished_is_dropped_with_its_charges(stays: bool) -> None:
    base = two_victims()
    base = replace(base, holds={50: replace(base.holds[50], alive=stays)})
    decisions = decide(base, POLICY, NOW + SECOND)
    assert [dropped.cause for dropped in decisions.dropped_holds] == ([] if stays else [DropCause.VANISHED])
    after = base.apply(decisions)
    assert (50 in after.holds) is stays
    assert after.pending == ()
    assert {t: {k: v for k, v in u.items() if v} for t, u in after.usage.items()} == {
        t: {k: v for k, v in u.items() if v} for t, u in recomputed(after).items()
    }


def test_a_hold_is_revised_when_its_node_is_cordoned() -> None:
    base = full(gpus=2, nodes=2)
    base = waiting(base, group(shape("high", request(gpu=2000), priority=10), item(50)))
    after = base.apply(decide(base, POLICY, NOW))
    held_on = after.holds[50].members[0].node_id
    cordoned = after.with_(CordonNode(held_on))
    decisions = decide(cordoned, POLICY, NOW + SECOND)
    assert [dropped.cause for dropped in decisions.dropped_holds] == [DropCause.REVISED]
    assert [hold.members[0].node_id for hold in decisions.holds] == [3 - held_on]
    check_answer(cordoned, decisions)


def test_a_hold_is_revised_when_a_freed_device_is_quarantined() -> None:
    base = two_victims()
    gone = base.holds[50].members[0].allocations[0].device_id
    assert gone is not None
    after = ended(base, 1, 2)
    free = after.nodes[1].accelerators["a100"]
    left = FreeDevices(tuple(device for device in free.whole if device != gone), free.partial)
    view = replace(after.nodes[1], accelerators={"a100": left}, unavailable=frozenset({gone}))
    after = replace(after, nodes={1: view})
    decisions = decide(after, POLICY, NOW + SECOND)
    assert [dropped.cause for dropped in decisions.dropped_holds] == [DropCause.REVISED]
    assert (placed(decisions), decisions.holds) == ([], ())
    back = check_answer(after, decisions)
    assert [group.heads for group in back.pending] == [(item(50),)]


def test_a_revised_hold_is_placed_at_once_where_there_is_room() -> None:
    base = two_victims()
    roomy = replace(
        base, nodes={**base.nodes, 1: replace(base.nodes[1], schedulable=False), 2: node(2, gpus=2)}
    )
    decisions = decide(roomy, POLICY, NOW + SECOND)
    (placement,) = decisions.placements
    assert (placement.attempt_id, placement.from_hold, placement.members[0].node_id) == (50, False, 2)
    check_answer(roomy, decisions)


def test_a_hold_ends_with_its_phases_timer_and_evicts_nobody_again_while_victims_stop() -> None:
    base = two_victims()
    late = NOW + HOLD_TIMER + SECOND
    base = replace(base, clusters={"c1": ClusterView("c1", late)})
    decisions = decide(base, POLICY, late)
    assert [dropped.cause for dropped in decisions.dropped_holds] == [DropCause.EXPIRED]
    assert decisions.evictions == ()
    assert [hold.attempt_id for hold in decisions.holds] == [50]
    check_answer(base, decisions)


def test_a_hold_in_a_cluster_that_does_not_answer_is_kept_but_not_placed() -> None:
    base = ended(two_victims(), 1, 2)
    silent = replace(base, clusters={"c1": ClusterView("c1", NOW, reachable=False)})
    assert not decide(silent, POLICY, NOW + SECOND).changes_state
    assert placed(decide(base, POLICY, NOW + SECOND)) == [50]


def test_work_in_a_cluster_that_does_not_answer_is_no_victim() -> None:
    base = snapshot([node(1, gpus=1), node(2, gpus=1, cluster="c2", flavor="b200")])
    base = started(base, group(LOW, item(1), item(2)))
    base = replace(base, clusters={**base.clusters, "c1": ClusterView("c1", None)})
    base = waiting(base, group(HIGH, item(50)))
    (eviction,) = decide(base, POLICY, NOW).evictions
    assert base.running[eviction.attempt_id].members[0].cluster == "c2"


def test_a_preemptors_charge_and_its_victims_are_not_counted_twice_against_others() -> None:
    limits = {**nominal("q", "gpu", 2000, borrowing=0), **nominal("other", "gpu", 1000)}
    queues = queue_tree(limits, ("q", "other"))
    base = started(snapshot([node(1, gpus=3)], queues=queues), group(LOW, item(1), item(2)))
    other = replace(HIGH, key="other", queue="other", priority=0)
    base = waiting(base, group(shape("high", request(gpu=2000), priority=10), item(50)))
    after = base.apply(decide(base, POLICY, NOW))
    assert after.usage["queue"]["q", "gpu"] == 4000
    after = waiting(after, group(other, item(70)))
    assert placed(decide(after, POLICY, NOW + SECOND)) == [70]


def test_a_shape_that_found_no_victims_looks_for_them_again_after_a_while() -> None:
    base = waiting(full(), group(HIGH, item(50)))
    looked = replace(base, last_looked={"high": NOW - SECOND // 2})
    decisions = decide(looked, POLICY, NOW)
    assert decisions.evictions == ()
    assert decisions.stats.next_at == NOW + SECOND // 2
    assert len(decide(looked, POLICY, NOW + SECOND // 2).evictions) == 1


def test_a_hold_for_quota_waits_until_its_victim_has_given_back_though_places_are_free() -> None:
    queues = queue_tree(nominal("q", "gpu", 1000))
    base = started(snapshot([node(1, gpus=2)], queues=queues), group(LOW, item(1)))
    base = waiting(base, group(HIGH, item(50)))
    base = base.apply(decide(base, POLICY, NOW))
    assert [hold.victims for hold in base.holds.values()] == [(1,)]
    early = decide(base, POLICY, NOW + SECOND)
    assert (placed(early), early.dropped_holds) == ([], ())
    assert placed(decide(ended(base, 1), POLICY, NOW + SECOND)) == [50]


def test_whoever_a_bound_puts_off_looks_for_victims_in_the_next_cycle() -> None:
    """Though those before it fail again each time that they may look again."""
    wide = [shape(f"wide{n:02}", request(gpu=1000), count=2, priority=20) for n in range(MAX_TRIES + 2)]
    groups = [group(of, item(100 + n)) for n, of in enumerate(wide)]
    world = waiting(full(), *groups, group(HIGH, item(500)))
    rules, now = policy(max_victims=1), NOW
    for _ in range(2):  # each gets its first reasons; then all may look again
        decisions = decide(world, rules, now)
        assert decisions.evictions == ()
        world, now = world.apply(decisions), now + SECOND
    decisions = decide(world, rules, now - SECOND)
    assert [eviction.preemptor_attempt_id for eviction in decisions.evictions] == [500]


@pytest.mark.parametrize("since", [2 * SECOND, LONGEST_PUT_OFF])
def test_whoever_is_put_off_keeps_its_reasons_but_not_for_ever(since: int) -> None:
    wide = [shape(f"wide{n:02}", request(gpu=1000), count=2, priority=20) for n in range(MAX_TRIES)]
    groups = [group(of, item(100 + n)) for n, of in enumerate(wide)]
    world = waiting(full(), *groups, group(HIGH, item(500)))
    decisions = decide(replace(world, last_looked={"high": NOW - since}), policy(max_victims=1), NOW)
    if since < LONGEST_PUT_OFF:
        assert "high" not in decisions.reasons
        assert decisions.stats.next_at == NOW + PUT_OFF_FOR
    else:
        assert "high" in decisions.looked

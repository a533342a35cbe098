"""S-30: victims are chosen where the work then fits; quota that fits without a place is its own reason."""

from __future__ import annotations

from dataclasses import replace

from steelyard.model.reasons import ReasonCode
from steelyard.model.workloads import Topology
from steelyard.scheduling import Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    codes,
    group,
    item,
    node,
    policy,
    request,
    running,
    shape,
    snapshot,
    started,
)

SECOND = 1_000_000
ONE = shape("one", request(gpu=1000))


def full(nodes: int = 8, gpus: int = 8) -> Snapshot:
    """Nodes full of single devices; those on node n are numbered from (n − 1) × gpus + 1. The newest of each
    node were placed last, so that by age alone one device would go on every node."""
    base = snapshot([node(n, gpus=gpus) for n in range(1, nodes + 1)])
    base = started(base, group(ONE, *(item(n) for n in range(1, nodes * gpus + 1))))
    for attempt in base.running:
        base = running(base, attempt, placed_at=NOW - SECOND - (attempt % gpus) * SECOND)
    return base


def where(base: Snapshot, attempts: list[int]) -> set[int]:
    return {member.node_id for attempt in attempts for member in base.running[attempt].members}


def test_eight_devices_of_one_node_go_and_not_one_of_each() -> None:
    base = replace(full(), pending=(group(shape("eight", request(gpu=8000), priority=9), item(900)),))
    decisions = decide(base, policy(), NOW)
    victims = [e.attempt_id for e in decisions.evictions]
    assert len(victims) == 8
    assert where(base, victims) == {decisions.holds[0].members[0].node_id}
    check_answer(base, decisions)


def test_the_node_with_the_fewest_evictions_is_taken() -> None:
    base = snapshot([node(1, gpus=8), node(2, gpus=8)])
    base = started(base, group(ONE, *(item(n) for n in range(1, 9))))
    base = started(base, group(shape("four", request(gpu=4000)), item(50), item(51)), at=NOW - SECOND)
    base = replace(base, pending=(group(shape("eight", request(gpu=8000), priority=9), item(900)),))
    assert [e.attempt_id for e in decide(base, policy(), NOW).evictions] == [50, 51]


def test_of_equals_the_least_work_is_lost() -> None:
    base = full(nodes=3, gpus=2)
    for attempt, run in base.running.items():
        on = run.members[0].node_id
        base = running(base, attempt, placed_at=NOW - {1: 50, 2: 20, 3: 90}[on] * SECOND)
    base = replace(base, pending=(group(shape("two", request(gpu=2000), priority=9), item(900)),))
    assert where(base, [e.attempt_id for e in decide(base, policy(), NOW).evictions]) == {2}


def test_what_was_saved_by_a_checkpoint_is_not_lost() -> None:
    base = full(nodes=2, gpus=1)
    base = running(base, 1, placed_at=NOW - 90 * SECOND, checkpointed_at=NOW - 5 * SECOND)
    base = running(base, 2, placed_at=NOW - 30 * SECOND)
    base = replace(base, pending=(group(shape("one!", request(gpu=1000), priority=9), item(900)),))
    assert [e.attempt_id for e in decide(base, policy(), NOW).evictions] == [1]


def test_a_lower_priority_goes_before_fewer_of_a_higher_one() -> None:
    base = snapshot([node(1, gpus=2), node(2, gpus=2)])
    base = started(base, group(ONE, item(1), item(2)))
    base = started(base, group(shape("two", request(gpu=2000), priority=5), item(3)), at=NOW - SECOND)
    base = replace(base, pending=(group(shape("high", request(gpu=2000), priority=9), item(900)),))
    assert [e.attempt_id for e in decide(base, policy(), NOW).evictions] == [1, 2]


def test_victims_of_one_rack_where_the_work_must_be_in_one() -> None:
    racks = {1: "r1", 2: "r2", 3: "r1", 4: "r2"}
    base = snapshot([node(n, gpus=2, labels={"rack": rack}) for n, rack in racks.items()])
    base = started(base, group(ONE, *(item(n) for n in range(1, 9))))
    for attempt, run in base.running.items():  # the cheapest nodes lie in different racks
        lost = {1: 10, 2: 20, 3: 30, 4: 25}[run.members[0].node_id]
        base = running(base, attempt, placed_at=NOW - lost * SECOND)
    wide = replace(
        shape("wide", request(gpu=2000), count=2, priority=9), topology=Topology(required="rack")
    )
    base = replace(base, pending=(group(wide, item(900)),))
    decisions = decide(base, policy(), NOW)
    assert where(base, [e.attempt_id for e in decisions.evictions]) == {1, 3}
    check_answer(base, decisions)


def test_quota_that_fits_without_a_place_says_so() -> None:
    base = full(nodes=2, gpus=2)
    for attempt in base.running:
        base = running(base, attempt, preemptible=False)
    base = replace(base, pending=(group(shape("two", request(gpu=2000), priority=9), item(900)),))
    decisions = decide(base, policy(), NOW)
    assert decisions.evictions == ()
    assert codes(decisions, "two")[0] in (ReasonCode.WAITING_FOR_CAPACITY, ReasonCode.FRAGMENTED)

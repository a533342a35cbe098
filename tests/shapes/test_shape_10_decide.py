"""Shape 10: decide(snapshot, policy, now): pure, immutable in, everything that later work needs there."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json

import pytest

from steelyard.model.reasons import ReasonCode
from steelyard.scheduling import (
    AddDevices,
    AddPending,
    CordonNode,
    Decisions,
    Snapshot,
    decide,
    explain,
)
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    group,
    item,
    node,
    nominal,
    org_tree,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

LOW, HIGH = shape("low", request(gpu=1000)), shape("high", request(gpu=1000), priority=9)
BIG = shape("big", request(gpu=9000))


def full_world() -> Snapshot:
    """Something is placed, something preempts, something can never fit, something backs off."""
    base = snapshot([node(1, gpus=2), node(2, gpus=1, flavor="h100", cluster="c2")],
                    queues=queue_tree(nominal("q", "gpu", 3000)), organisation=org_tree())
    base = started(base, group(LOW, item(1), item(2)))
    return dataclasses.replace(base, pending=(
        group(HIGH, item(50), item(51)), group(BIG, item(60)),
        group(shape("late", request(cpu=1)), item(70, not_before=NOW + 1)),
    ))


def test_the_signature_is_final() -> None:
    assert list(inspect.signature(decide).parameters) == ["snapshot", "policy", "now"]


def test_the_snapshot_holds_what_later_decisions_rest_on() -> None:
    names = {field.name for field in dataclasses.fields(Snapshot)}
    assert names >= {
        "usage", "trees", "history", "holds", "evicted", "timeline", "prices", "clusters",
        "pending", "running", "last_looked", "basis",
    }


def test_the_answer_holds_all_kinds_of_decision_with_reasons_by_shape_and_by_workload() -> None:
    decisions = decide(full_world(), POLICY, NOW)
    assert placed(decisions) == [50]
    assert [hold.attempt_id for hold in decisions.holds] == [51]
    assert len(decisions.evictions) == 1
    assert decisions.reasons["big"].reasons[0].code == ReasonCode.EXCEEDS_MAX_QUOTA
    assert decisions.workload_reasons[70][0].code == ReasonCode.BACKOFF
    assert decisions.workload_reasons[51][0].code == ReasonCode.WAITING_FOR_PREEMPTED
    assert decisions.policy_version == POLICY.version
    assert all(reason.wakes_on for each in decisions.reasons.values() for reason in each.reasons)
    check_answer(full_world(), decisions)


def test_deciding_applying_and_asking_what_if_leave_the_snapshot_as_it_was() -> None:
    world = full_world()
    before = copy.deepcopy((world.nodes, world.usage, world.pending, world.running, world.holds))
    world.apply(decide(world, POLICY, NOW))
    world.with_(AddPending(LOW, item(90)))
    world.with_(AddDevices(node(3, gpus=1)))
    world.with_(CordonNode(1))
    explain(world, POLICY, NOW, BIG)
    assert (world.nodes, world.usage, world.pending, world.running, world.holds) == before


def test_the_same_input_gives_the_same_answer_and_it_can_be_compared_as_plain_data() -> None:
    first, second = (decide(full_world(), POLICY, NOW).digest_input() for _ in range(2))
    assert json.dumps(first) == json.dumps(second)
    other = decide(full_world(), policy(version=2), NOW).digest_input()
    assert json.dumps(other) != json.dumps(first)


def test_cost_grows_with_shapes_and_not_with_workloads() -> None:
    heads = [item(number) for number in range(100, 600)]
    world = dataclasses.replace(full_world(), pending=(group(BIG, *heads),))
    assert decide(world, POLICY, NOW).stats.tried == 1


def test_reasons_are_kept_by_shape_and_only_changed_ones_are_made_again() -> None:
    world = dataclasses.replace(full_world(), pending=(group(BIG, item(60)),))
    first = decide(world, POLICY, NOW)
    assert (set(first.reasons), first.looked) == ({"big"}, ("big",))
    assert decide(world.apply(first), POLICY, NOW + 1).reasons == {}


@pytest.mark.parametrize("bound", ["max_placements", "max_nodes", "max_victims"])
def test_bounds_on_work_are_counts_in_the_policy(bound: str) -> None:
    assert isinstance(getattr(POLICY, bound), int)


def test_nothing_in_the_answer_is_a_float() -> None:
    def walk(value: object) -> None:
        assert not isinstance(value, float)
        if isinstance(value, list):
            for inner in value:
                walk(inner)

    decisions: Decisions = decide(full_world(), POLICY, NOW)
    walk(decisions.digest_input())

"""Where work goes, in which order, and that a gang goes whole or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.model.reasons import ReasonCode
from steelyard.model.resources import ShareKind
from steelyard.scheduling import (
    ClusterView,
    FlavorView,
    FreeDevices,
    PartDevice,
    QuotaBasis,
    can_ever_fit,
    decide,
)
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    POLICY,
    check_answer,
    codes,
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
)

ONE_GPU = request(gpu=1000, cpu=1000)


def test_the_first_node_by_id_and_the_first_devices_by_id_are_taken() -> None:
    base = snapshot([node(2, gpus=2), node(1, gpus=2)], group(shape("s", ONE_GPU), item(1), item(2), item(3)))
    decisions = decide(base, POLICY, NOW)
    where = [(p.members[0].node_id, p.members[0].allocations[0].device_id) for p in decisions.placements]
    assert where == [(1, 100), (1, 101), (2, 200)]
    check_answer(base, decisions)


def test_higher_priority_first_then_first_submitted_then_lower_id_over_all_queues() -> None:
    low, high = shape("low", ONE_GPU, queue="a"), shape("high", ONE_GPU, queue="b", priority=5)
    other = shape("other", request(gpu=1000, cpu=2000), queue="c")
    groups = (group(low, item(7, 50), item(3, 50)), group(high, item(9, 99)), group(other, item(5, 50)))
    base = snapshot([node(1, gpus=8)], *groups)
    assert placed(decide(base, POLICY, NOW)) == [9, 3, 5, 7]


def test_a_head_that_does_not_fit_blocks_no_other_shape() -> None:
    big, small = shape("big", request(gpu=4000), priority=9), shape("small", ONE_GPU)
    base = snapshot([node(1, gpus=2)], group(big, item(1)), group(small, item(2)))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == [2]
    assert set(decisions.reasons) == {"big"}


def test_an_equal_shape_is_not_tried_again_in_the_cycle() -> None:
    heads = [item(number) for number in range(1, 100)]
    base = snapshot([node(1, gpus=1)], group(shape("s", request(gpu=2000)), *heads))
    assert decide(base, POLICY, NOW).stats.tried == 1


@pytest.mark.requirement("B2")
def test_no_class_serves_another_classs_request() -> None:
    wants_npu = shape("npu", request(npu=1000))
    base = snapshot([node(1, gpus=8)], group(wants_npu, item(1)))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == []
    assert codes(decisions, "npu") == [ReasonCode.NO_MATCHING_FLAVOR]


@pytest.mark.requirement("C12")
def test_an_allowed_flavor_of_another_class_is_not_used() -> None:
    wants_npu = shape("npu", request(npu=1000, flavors=("a100", "npu-x")))
    base = snapshot([node(1, gpus=8), node(2, gpus=1, flavor="npu-x")], group(wants_npu, item(1)))
    decisions = decide(base, POLICY, NOW)
    assert [p.members[0].node_id for p in decisions.placements] == [2]


def test_flavors_are_tried_in_the_requests_order_else_by_name() -> None:
    nodes = [node(1, gpus=1, flavor="a100"), node(2, gpus=1, flavor="h100")]
    ordered = shape("s", request(gpu=1000, flavors=("h100", "a100")))
    base = snapshot(nodes, group(ordered, item(1), item(2)))
    assert [p.members[0].node_id for p in decide(base, POLICY, NOW).placements] == [2, 1]
    base = snapshot(nodes, group(shape("s", ONE_GPU), item(1), item(2)))
    assert [p.members[0].node_id for p in decide(base, POLICY, NOW).placements] == [1, 2]


@pytest.mark.parametrize(
    "constraint",
    [{"models": ("h100",)}, {"clusters": ("c2",)}, {"node_labels": (("zone", "b"),)}, {"flavors": ("h100",)}],
    ids=["model", "cluster", "label", "flavor"],
)
def test_a_constraint_is_respected(constraint: dict[str, object]) -> None:
    nodes = [
        node(1, gpus=4),
        node(2, gpus=4, flavor="h100", cluster="c2", labels={"zone": "b"}),
    ]
    base = snapshot(nodes, group(shape("s", request(gpu=1000, cpu=100, **constraint)), item(1)))
    assert [p.members[0].node_id for p in decide(base, POLICY, NOW).placements] == [2]


def test_accelerator_cpu_and_memory_come_from_one_node() -> None:
    nodes = [node(1, gpus=4, cpu=500), node(2, cpu=64_000), node(3, gpus=1, memory=10), node(4, gpus=1)]
    base = snapshot(nodes, group(shape("s", request(gpu=1000, cpu=1000, memory=100)), item(1)))
    decisions = decide(base, POLICY, NOW)
    assert {a.node_id for m in decisions.placements[0].members for a in m.allocations} == {4}


def test_a_gang_over_two_roles_is_placed_whole_or_leaves_nothing_taken() -> None:
    gang = shape("gang", request(gpu=2000), request(cpu=40_000), count=2)
    small = shape("small", request(gpu=4000))
    base = snapshot([node(1, gpus=4, cpu=64_000)], group(gang, item(1, 1)), group(small, item(2, 2)))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == [2]
    whole = snapshot([node(1, gpus=4, cpu=80_000)], group(gang, item(1, 1)))
    decisions = decide(whole, POLICY, NOW)
    assert [(m.role, m.index) for m in decisions.placements[0].members] == [
        ("role0", 0), ("role0", 1), ("role1", 0), ("role1", 1)
    ]
    check_answer(whole, decisions)


def test_a_gang_stays_in_one_cluster() -> None:
    nodes = [node(1, gpus=2), node(2, gpus=3, cluster="c2", flavor="b200")]
    gang = shape("gang", request(gpu=1000), count=3)
    decisions = decide(snapshot(nodes, group(gang, item(1))), POLICY, NOW)
    assert {m.cluster for m in decisions.placements[0].members} == {"c2"}


def test_fractions_share_one_device_tightly_and_whole_devices_are_never_put_on_it() -> None:
    view = node(1, gpus=2)
    view = replace(view, accelerators={"a100": FreeDevices((101,), (PartDevice(100, 600),))})
    part, whole = shape("part", request(gpu=500)), shape("whole", request(gpu=1000))
    base = snapshot([view], group(part, item(1, 1), item(2, 2)), group(whole, item(3, 3)))
    decisions = decide(base, POLICY, NOW)
    got = [p.members[0].allocations[0] for p in decisions.placements]
    assert [(a.device_id, a.quantity, a.share_kind) for a in got] == [
        (100, 500, ShareKind.TIME_SLICED), (101, 500, ShareKind.TIME_SLICED)
    ]
    assert codes(decisions, "whole") == [ReasonCode.WAITING_FOR_CAPACITY]
    check_answer(base, decisions)


def test_a_whole_device_is_exclusive() -> None:
    base = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), item(1)))
    assert decide(base, POLICY, NOW).placements[0].members[0].allocations[0].share_kind is ShareKind.EXCLUSIVE


@pytest.mark.parametrize(
    "cluster",
    [
        ClusterView("c1", NOW, reachable=False),
        ClusterView("c1", None),
        ClusterView("c1", NOW - POLICY.observation_bound - 1),
    ],
    ids=["unreachable", "never observed", "observed too long ago"],
)
def test_a_cluster_that_does_not_answer_is_given_nothing_and_named(cluster: ClusterView) -> None:
    base = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), item(1)), clusters={"c1": cluster})
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == []
    (reason,) = decisions.reasons["s"].reasons
    assert (reason.code, reason.owner) == (ReasonCode.CLUSTER_UNREACHABLE, "c1")


def test_one_lost_cluster_does_not_touch_the_other() -> None:
    nodes = [node(1, gpus=1), node(2, gpus=1, cluster="c2", flavor="b200")]
    clusters = {"c1": ClusterView("c1", NOW, reachable=False), "c2": ClusterView("c2", NOW)}
    base = snapshot(nodes, group(shape("s", ONE_GPU), item(1)), clusters=clusters)
    assert [p.members[0].cluster for p in decide(base, POLICY, NOW).placements] == ["c2"]


def test_a_cordoned_node_is_given_nothing() -> None:
    nodes = [node(1, gpus=1, schedulable=False), node(2, gpus=1)]
    base = snapshot(nodes, group(shape("s", ONE_GPU), item(1)))
    assert [p.members[0].node_id for p in decide(base, POLICY, NOW).placements] == [2]


def test_a_flavors_own_limit_turns_to_the_next_flavor() -> None:
    nodes = [node(1, gpus=4, flavor="a100"), node(2, gpus=4, flavor="h100")]
    limits = {**nominal("q", "gpu", 4000), **nominal("cohort", "flavor/a100", 1000)}
    base = snapshot(nodes, group(shape("s", ONE_GPU), item(1), item(2)), queues=queue_tree(limits))
    decisions = decide(base, POLICY, NOW)
    assert [p.members[0].node_id for p in decisions.placements] == [1, 2]
    check_answer(base, decisions)


def test_a_gang_refused_by_a_flavors_limit_leaves_no_node_wrongly_passed_over() -> None:
    limits = nominal("cohort", "flavor/cpu-c1", 2000)
    gang = shape("gang", request(gpu=1000, cpu=2000), count=2, priority=1)
    small = shape("small", request(gpu=1000, cpu=1000))
    nodes, queues = [node(1, gpus=1), node(2, gpus=1)], queue_tree(limits)
    base = snapshot(nodes, group(gang, item(1)), group(small, item(2)), queues=queues)
    decisions = decide(base, POLICY, NOW)
    assert [p.members[0].node_id for p in decisions.placements] == [1]
    assert codes(decisions, "gang") == [ReasonCode.EXCEEDS_MAX_QUOTA, ReasonCode.WAITING_FOR_CAPACITY]
    assert [reason.flavor for reason in can_ever_fit(base, POLICY, gang)] == ["cpu-c1"]


def test_a_placement_says_whose_quota_it_rests_on() -> None:
    limits = {**nominal("q", "gpu", 1000), **nominal("lender", "gpu", 1000)}
    queues = queue_tree(limits, ("q", "lender"))
    base = snapshot([node(1, gpus=4)], group(shape("s", ONE_GPU), item(1), item(2), item(3)), queues=queues)
    decisions = decide(base, POLICY, NOW)
    assert [(p.quota_basis, p.lender) for p in decisions.placements] == [
        (QuotaBasis.NOMINAL, None), (QuotaBasis.BORROWED, "cohort")
    ]
    unlimited = snapshot([node(1, gpus=4)], group(shape("s", ONE_GPU), item(1)), queues=queue_tree())
    assert decide(unlimited, POLICY, NOW).placements[0].quota_basis is QuotaBasis.UNLIMITED


def test_a_request_is_charged_under_its_class_and_its_flavor_in_both_trees() -> None:
    base = snapshot(
        [node(1, gpus=1)], group(shape("s", request(gpu=1000)), item(1)),
        queues=queue_tree(), organisation=org_tree(),
    )
    charges = decide(base, POLICY, NOW).placements[0].charges
    assert {(c.tree, c.node, c.subject, c.quantity) for c in charges} == {
        ("queue", "q", "gpu", 1000), ("queue", "q", "flavor/a100", 1000),
        ("organisation", "ns-p", "gpu", 1000), ("organisation", "ns-p", "flavor/a100", 1000),
    }


def test_the_bound_on_placements_is_kept_and_says_that_there_is_more() -> None:
    base = snapshot([node(1, gpus=8)], group(shape("s", ONE_GPU), *(item(n) for n in range(1, 6))))
    decisions = decide(base, policy(max_placements=2), NOW)
    assert placed(decisions) == [1, 2]
    assert decisions.stats.more
    assert codes(decisions, "s") == [ReasonCode.PENDING_EVALUATION]


def test_the_bound_on_nodes_is_kept_and_makes_the_answer_approximate() -> None:
    nodes = [node(number, gpus=2, cpu=1000) for number in range(1, 10)] + [node(10, gpus=2)]
    base = snapshot(nodes, group(shape("s", request(gpu=2000, cpu=2000)), item(1)))
    cut_short = decide(base, policy(max_nodes=3), NOW)
    assert placed(cut_short) == []
    assert cut_short.reasons["s"].approximate
    assert placed(decide(base, POLICY, NOW)) == [1]


def test_an_attempt_in_back_off_waits_for_its_time_and_lets_the_next_pass() -> None:
    first = item(1, not_before=NOW + 5)
    base = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), first, item(2)))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == [2]
    (reason,) = decisions.workload_reasons[1]
    assert (reason.code, reason.params) == (ReasonCode.BACKOFF, {"until": NOW + 5})
    assert decisions.stats.next_at == NOW + 5


def test_a_device_of_a_flavor_nobody_declared_is_left_alone() -> None:
    base = snapshot([node(1, gpus=1)], group(shape("s", request(gpu=1000)), item(1)))
    flavors = {"other": FlavorView("other", GPU, "c1")}
    assert placed(decide(replace(base, flavors=flavors), POLICY, NOW)) == []


def test_a_shape_without_roles_stops_nothing() -> None:
    base = snapshot([node(1, gpus=1)], group(shape("none"), item(1)), group(shape("s", ONE_GPU), item(2)))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == [2]
    assert codes(decisions, "none") == [ReasonCode.NO_MATCHING_FLAVOR]


def test_a_node_to_be_avoided_is_taken_only_where_no_other_will_do() -> None:
    retried, first = item(1, avoid=(1,)), item(2)
    base = snapshot([node(1, gpus=1), node(2, gpus=1)], group(shape("s", ONE_GPU), retried, first))
    where = {p.attempt_id: p.members[0].node_id for p in decide(base, POLICY, NOW).placements}
    assert where == {1: 2, 2: 1}
    alone = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), retried))
    assert [p.members[0].node_id for p in decide(alone, POLICY, NOW).placements] == [1]

"""Every reason that blocks, with who holds what is missing; and what could never be."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.model.ids import render
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, OnExceed, TreeNode
from steelyard.model.reasons import ReasonCode
from steelyard.scheduling import (
    AddDevices,
    AddPending,
    ChangeLimit,
    PendingItem,
    QuotaTree,
    can_ever_fit,
    decide,
    explain,
    hard_limit,
    over_refusing_limit,
)
from tests.unit.scheduling.build import (
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
    running,
    shape,
    snapshot,
    started,
)

ONE_GPU = request(gpu=1000)


@pytest.mark.requirement("E5", "J4")
def test_every_limit_on_both_paths_and_every_flavor_is_told() -> None:
    """S-07: all blocking reasons, not the first met."""
    limits = nominal("cohort", "gpu", 2000)
    org = {("p", "gpu"): hard_limit("p", "gpu", 2000), ("team", "gpu"): hard_limit("team", "gpu", 2000)}
    nodes = [node(1, gpus=1, flavor="a100"), node(2, gpus=1, flavor="h100")]
    base = snapshot(nodes, queues=queue_tree(limits), organisation=org_tree(org))
    base = started(base, group(shape("busy", ONE_GPU), item(1), item(2)))
    base = replace(base, pending=(group(shape("s", ONE_GPU), item(50)),))
    decisions = decide(base, POLICY, NOW)
    told = [(reason.code, reason.owner, reason.short_by) for reason in decisions.reasons["s"].reasons]
    assert told == [
        (ReasonCode.OVER_LIMIT, "p", 1000),
        (ReasonCode.OVER_LIMIT, "team", 1000),
        (ReasonCode.WAITING_FOR_QUOTA, "cohort", 1000),
        (ReasonCode.WAITING_FOR_CAPACITY, "a100", 1000),
        (ReasonCode.WAITING_FOR_CAPACITY, "h100", 1000),
    ]
    check_answer(base, decisions)


def test_capacity_is_no_reason_while_one_flavor_has_room() -> None:
    nodes = [node(1, gpus=1, flavor="a100"), node(2, gpus=2, flavor="h100")]
    base = snapshot(nodes, queues=queue_tree(nominal("q", "gpu", 1000)))
    base = started(base, group(shape("busy", ONE_GPU), item(1)))
    base = replace(base, pending=(group(shape("s", ONE_GPU), item(50)),))
    assert codes(decide(base, POLICY, NOW), "s") == [ReasonCode.WAITING_FOR_QUOTA]


def test_holders_are_named_lowest_priority_and_newest_first_and_sum_to_the_shortfall() -> None:
    """S-02: who holds the quota I wait for?"""
    base = snapshot([node(1, gpus=8)], queues=queue_tree(nominal("q", "gpu", 6000)))
    base = started(base, group(shape("busy", request(gpu=2000), project="x"), item(1), item(2), item(3)))
    base = running(running(base, 1, priority=5), 2, placed_at=base.running[2].placed_at + 1)
    wanted = shape("s", request(gpu=3000), preemptible=False)
    decisions = decide(replace(base, pending=(group(wanted, item(50)),)), POLICY, NOW)
    reason = decisions.reasons["s"].reasons[0]
    assert (reason.limit, reason.used, reason.requested, reason.short_by) == (6000, 6000, 3000, 3000)
    assert [(holder.id, holder.amount, holder.project) for holder in reason.holders] == [
        (render("workload", 2), 2000, "x"), (render("workload", 3), 1000, "x")
    ]


def test_only_what_flowed_up_is_held_at_the_cohort() -> None:
    limits = {**nominal("a", "gpu", 3000, lending=0), **nominal("cohort", "gpu", 2000)}
    base = snapshot([node(1, gpus=8)], queues=queue_tree(limits, ("a", "b")))
    base = started(base, group(shape("busy", ONE_GPU, queue="a"), *(item(n) for n in range(1, 6))))
    base = replace(base, pending=(group(shape("s", ONE_GPU, queue="b"), item(50)),))
    (reason,) = decide(base, POLICY, NOW).reasons["s"].reasons
    assert (reason.owner, reason.limit, reason.used, reason.short_by) == ("cohort", 2000, 2000, 1000)
    assert [holder.amount for holder in reason.holders] == [1000]


def test_more_than_sixteen_holders_are_folded_and_still_sum_to_the_shortfall() -> None:
    base = started(
        snapshot([node(1, gpus=32)]), group(shape("busy", ONE_GPU), *(item(n) for n in range(1, 33)))
    )
    base = replace(base, pending=(group(shape("s", request(gpu=30_000)), item(50)),))
    (reason,) = decide(base, POLICY, NOW).reasons["s"].reasons
    assert len(reason.holders) == 16
    assert (reason.holders[-1].kind, reason.holders[-1].amount) == ("others", 15_000)
    assert sum(holder.amount for holder in reason.holders) == reason.short_by == 30_000


def test_what_nobody_holds_is_named_unavailable() -> None:
    view = replace(node(1, gpus=2), schedulable=False)
    base = snapshot([view], group(shape("s", ONE_GPU), item(1)))
    (reason,) = decide(base, POLICY, NOW).reasons["s"].reasons
    assert reason.code == ReasonCode.WAITING_FOR_CAPACITY
    assert [(holder.kind, holder.amount) for holder in reason.holders] == [("unavailable", 1000)]


def test_enough_in_sum_but_scattered_over_nodes_is_its_own_reason() -> None:
    """S-30: quota fits, placement does not."""
    base = started(
        snapshot([node(1, gpus=4), node(2, gpus=4)]),
        group(shape("two", request(gpu=2000)), item(1)), group(shape("three", request(gpu=3000)), item(2)),
    )
    base = replace(base, pending=(group(shape("s", request(gpu=3000)), item(50)),))
    decisions = decide(base, POLICY, NOW)
    (reason,) = decisions.reasons["s"].reasons
    assert (reason.code, reason.short_by, reason.params["free"]) == (ReasonCode.FRAGMENTED, 1000, 3000)
    assert [holder.id for holder in reason.holders] == [render("workload", 1)]
    assert (reason.limit, reason.used, reason.requested) == (4000, 2000, 3000)


def test_a_gang_of_which_some_members_find_room_is_short_of_the_rest_only() -> None:
    base = started(
        snapshot([node(1, gpus=4), node(2, gpus=4)]), group(shape("one", ONE_GPU), item(1)),
    )
    base = replace(base, pending=(group(shape("s", request(gpu=3000), count=2), item(50)),))
    assert placed(decide(base, POLICY, NOW)) == [50]
    base = started(replace(base, pending=()), group(shape("more", request(gpu=2000)), item(2)))
    base = replace(base, pending=(group(shape("s", request(gpu=2000), count=2), item(50)),))
    assert placed(decide(base, POLICY, NOW)) == [50]
    base = replace(base, pending=(group(shape("s", request(gpu=3000, cpu=100), count=2), item(50)),))
    decisions = decide(base, POLICY, NOW)
    (reason,) = decisions.reasons["s"].reasons
    assert (reason.code, reason.short_by) == (ReasonCode.WAITING_FOR_CAPACITY, 1000)


def test_missing_cpu_beside_free_accelerators_is_told_as_cpu() -> None:
    base = started(
        snapshot([node(1, gpus=4, cpu=4000)]), group(shape("cpu", request(cpu=3000)), item(1))
    )
    base = replace(base, pending=(group(shape("s", request(gpu=1000, cpu=2000)), item(50)),))
    (reason,) = decide(base, POLICY, NOW).reasons["s"].reasons
    assert (reason.code, reason.resource, reason.short_by) == (ReasonCode.WAITING_FOR_CAPACITY, "cpu", 1000)


def test_the_hardest_members_cause_is_kept() -> None:
    """S-06: the easy role of a gang does not hide what its hard one lacks."""
    base = snapshot([node(1, gpus=2)])
    base = started(base, group(shape("busy", ONE_GPU), item(1)))
    gang = shape("s", request(cpu=100), request(gpu=2000))
    (reason,) = decide(replace(base, pending=(group(gang, item(50)),)), POLICY, NOW).reasons["s"].reasons
    assert (reason.params["role"], reason.short_by) == ("role1", 1000)


@pytest.mark.parametrize(
    ("stopped", "code", "owner"),
    [
        ({"q": {"stopped": True}}, ReasonCode.QUEUE_STOPPED, "q"),
        ({"cohort": {"stopped": True}}, ReasonCode.QUEUE_STOPPED, "cohort"),
        ({"q": None}, ReasonCode.NO_QUEUE, "q"),
    ],
    ids=["queue stopped", "cohort stopped", "no such queue"],
)
def test_a_queue_that_lets_nothing_start_is_the_reason(stopped: dict, code: str, owner: str) -> None:
    """S-01: a reason also where the queue is missing or stopped."""
    nodes: dict[str, TreeNode] = {}
    for name, tree_node in queue_tree().nodes.items():
        change = stopped.get(name, {})
        if change is not None:
            nodes[name] = replace(tree_node, **change)
    base = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), item(1)), queues=QuotaTree(nodes, {}))
    decisions = decide(base, POLICY, NOW)
    assert placed(decisions) == []
    first = decisions.reasons["s"].reasons[0]
    assert (first.code, first.owner) == (code, owner)


def test_no_place_in_the_organisation_is_the_reason() -> None:
    base = snapshot(
        [node(1, gpus=1)], group(shape("s", ONE_GPU, project="x"), item(1)), organisation=org_tree()
    )
    assert codes(decide(base, POLICY, NOW), "s")[0] == ReasonCode.NO_NAMESPACE


@pytest.mark.requirement("E13")
@pytest.mark.parametrize(
    ("wanted", "code", "per"),
    [
        (request(gpu=9000), ReasonCode.EXCEEDS_MAX_QUOTA, None),
        (request(gpu=5000), ReasonCode.EXCEEDS_CAPACITY, "node"),
        (request(gpu=1000, cpu=90_000), ReasonCode.EXCEEDS_CAPACITY, "node"),
        (request(npu=1000), ReasonCode.NO_MATCHING_FLAVOR, None),
        (request(gpu=1000, models=("z",)), ReasonCode.NO_MATCHING_FLAVOR, None),
        (request(gpu=1000, node_labels=(("zone", "z"),)), ReasonCode.LABEL_MISMATCH, "node"),
    ],
    ids=["quota", "devices of a node", "cpu of a node", "class", "model", "label"],
)
def test_what_can_never_fit_is_told_from_what_waits(wanted, code: str, per: str | None) -> None:
    """S-05: said at submit, not after hours."""
    limits = {**nominal("q", "gpu", 4000), **nominal("cohort", "gpu", 4000)}
    nodes = [node(1, gpus=4), node(2, gpus=4, schedulable=False)]
    base = snapshot(nodes, queues=queue_tree(limits))
    reasons = can_ever_fit(base, POLICY, shape("s", wanted))
    assert (reasons[0].code, reasons[0].params.get("per")) == (code, per)
    assert reasons[0].holders == ()
    waits = replace(base, pending=(group(shape("s", wanted), item(1)),))
    assert code in codes(decide(waits, POLICY, NOW), "s")


def test_what_fits_an_empty_cluster_may_fit_however_full_it_is() -> None:
    nodes = [node(1, gpus=4), node(2, gpus=4, schedulable=False)]
    base = started(snapshot(nodes, queues=queue_tree(nominal("q", "gpu", 8000))), group(
        shape("busy", request(gpu=4000)), item(1)
    ))
    assert can_ever_fit(base, POLICY, shape("s", request(gpu=4000), count=2)) == ()
    base = replace(base, clusters={})
    assert can_ever_fit(base, POLICY, shape("s", request(gpu=4000), count=2)) == ()


def test_a_gang_larger_than_the_nodes_can_hold_together_never_fits() -> None:
    base = snapshot([node(1, gpus=4), node(2, gpus=4)])
    (reason,) = can_ever_fit(base, POLICY, shape("s", request(gpu=3000, cpu=100), count=3))
    assert (reason.code, reason.params["per"]) == (ReasonCode.EXCEEDS_CAPACITY, "cluster")
    (reason,) = can_ever_fit(base, POLICY, shape("s", request(gpu=2500), count=3))
    assert (reason.code, reason.params["per"], reason.limit) == (ReasonCode.EXCEEDS_CAPACITY, "members", 5000)


@pytest.mark.requirement("J1")
def test_a_refusing_limit_is_told_only_while_it_is_exceeded() -> None:
    org = {("p", "gpu"): hard_limit("p", "gpu", 2000), ("team", "gpu"): hard_limit("team", "gpu", 9000)}
    base = snapshot([node(1, gpus=8)], organisation=org_tree(org))
    wanted = shape("s", ONE_GPU)
    assert over_refusing_limit(base, wanted) == ()
    busy = started(base, group(shape("busy", ONE_GPU), item(1), item(2)))
    (reason,) = over_refusing_limit(busy, wanted)
    assert (reason.code, reason.scope, reason.owner) == (ReasonCode.OVER_LIMIT, "project", "p")
    assert (reason.limit, reason.used, reason.requested, reason.short_by) == (2000, 2000, 1000, 1000)
    assert sum(holder.amount for holder in reason.holders) == 1000
    waits = hard_limit("p", "gpu", 2000, OnExceed.WAIT)
    assert over_refusing_limit(busy.with_(ChangeLimit(waits)), wanted) == ()


def test_explain_tells_what_the_next_cycle_would_do_and_leaves_no_trace() -> None:
    """S-04: what-if equals the later real decision on a frozen state."""
    base = snapshot([node(1, gpus=2)], queues=queue_tree())
    wanted, probe = shape("s", ONE_GPU), PendingItem(9, 9, NOW)
    would = explain(base, POLICY, NOW, wanted)
    real = decide(base.with_(AddPending(wanted, probe)), POLICY, NOW)
    assert would.placement is not None
    assert would.placement.members == real.placements[0].members
    assert base.pending == ()


def test_explain_has_the_same_reasons_as_the_cycle() -> None:
    base = started(snapshot([node(1, gpus=2)]), group(shape("busy", request(gpu=2000)), item(1)))
    base = replace(base, pending=(group(shape("s", ONE_GPU), item(50)),))
    found = explain(base, POLICY, NOW, shape("s", ONE_GPU))
    assert found.reasons == decide(base, POLICY, NOW).reasons["s"].reasons


def test_explain_of_a_preemptor_tells_its_hold_and_whom_it_waits_for() -> None:
    base = started(snapshot([node(1, gpus=1)]), group(shape("busy", ONE_GPU), item(1)))
    found = explain(base, POLICY, NOW, shape("high", ONE_GPU, priority=9))
    assert found.hold is not None
    assert [reason.code for reason in found.reasons] == [ReasonCode.WAITING_FOR_PREEMPTED]
    held = base.with_(AddPending(shape("high", ONE_GPU, priority=9), item(50)))
    held = held.apply(decide(held, POLICY, NOW))
    again = explain(held, POLICY, NOW + 1, shape("high", ONE_GPU, priority=9))
    assert again.hold == held.holds[50]


def test_explain_of_an_attempt_in_back_off_tells_the_back_off() -> None:
    waiting = item(1, not_before=NOW + 9)
    base = snapshot([node(1, gpus=1)], group(shape("s", ONE_GPU), waiting))
    found = explain(base, POLICY, NOW, shape("s", ONE_GPU), waiting)
    assert [reason.code for reason in found.reasons] == [ReasonCode.BACKOFF]


def test_what_if_more_devices_or_a_higher_limit_would_start_it() -> None:
    base = snapshot([node(1, gpus=1)], queues=queue_tree(nominal("q", "gpu", 1000)))
    wanted = shape("s", request(gpu=2000))
    assert explain(base, POLICY, NOW, wanted).placement is None
    more = base.with_(AddDevices(node(2, gpus=2)))
    assert explain(more, POLICY, NOW, wanted).placement is None
    (limit,) = nominal("q", "gpu", 2000).values()
    assert explain(more.with_(ChangeLimit(limit)), POLICY, NOW, wanted).placement is not None
    assert limit.tree == QUEUE_TREE != ORG_TREE


def test_only_so_many_shapes_are_explained_in_a_cycle_and_the_others_next() -> None:
    shapes = [shape(f"s{index}", request(gpu=1000 + index)) for index in range(600)]
    base = snapshot([node(1)], *(group(each, item(index + 1)) for index, each in enumerate(shapes)))
    seen: set[str] = set()
    for step in range(3):
        decisions = decide(base, POLICY, NOW + step)
        assert decisions.stats.unexplained == max(0, 600 - 256 * (step + 1))
        assert all(decisions.reasons[each.key].reasons for each in shapes if each.key not in seen)
        seen |= set(decisions.looked)
        base = base.apply(decisions)
    assert len(seen) == 600


def test_a_shape_is_not_explained_anew_before_a_while_has_passed() -> None:
    base = snapshot([node(1)], group(shape("s", ONE_GPU), item(1)))
    base = base.apply(decide(base, POLICY, NOW))
    soon = decide(base, POLICY, NOW + 1)
    assert (soon.reasons, soon.stats.next_at) == ({}, NOW + 1_000_000)
    assert decide(base, policy(version=2), NOW + 1_000_000).looked == ("s",)


def test_a_flavor_that_may_do_binds_before_one_that_never_can() -> None:
    limits = nominal("cohort", "flavor/a100", 2000) | nominal("cohort", "flavor/t4", 1000)
    nodes = [node(1, gpus=2, flavor="a100"), node(2, gpus=1, flavor="t4")]
    base = started(
        snapshot(nodes, queues=queue_tree(limits)), group(shape("busy", request(gpu=1000)), item(1))
    )
    base = replace(base, pending=(group(shape("s", request(gpu=2000)), item(50)),))
    told = decide(base, POLICY, NOW).reasons["s"].reasons
    assert [(each.code, each.flavor) for each in told] == [
        (ReasonCode.WAITING_FOR_QUOTA, "a100"),
        (ReasonCode.WAITING_FOR_CAPACITY, "a100"),
        (ReasonCode.EXCEEDS_MAX_QUOTA, "t4"),
        (ReasonCode.EXCEEDS_CAPACITY, "t4"),
    ]

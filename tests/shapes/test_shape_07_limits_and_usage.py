"""Shape 7: limits by (tree, node, flavor or class); usage apart from them; one arithmetic for both trees."""

from __future__ import annotations

from dataclasses import replace

from steelyard.model.policy import ORG_TREE, QUEUE_TREE, OnExceed
from steelyard.scheduling import (
    ChangeLimit,
    available,
    decide,
    hard_limit,
    over_refusing_limit,
    potential,
    total_usage,
)
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    group,
    item,
    node,
    nominal,
    org_tree,
    placed,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)

ONE = shape("one", request(gpu=1000))


def test_a_request_is_counted_under_its_flavor_and_its_class_in_both_trees() -> None:
    base = snapshot([node(1, gpus=2)], queues=queue_tree(), organisation=org_tree())
    usage = started(base, group(ONE, item(1))).usage
    for tree, names in ((QUEUE_TREE, ("q", "cohort")), (ORG_TREE, ("ns-p", "p", "team", "installation"))):
        for name in names:
            assert usage[tree][name, "gpu"] == usage[tree][name, "flavor/a100"] == 1000


def test_a_limit_may_name_a_class_or_a_flavor_and_the_tighter_one_holds() -> None:
    nodes = [node(1, gpus=4), node(2, gpus=4, flavor="h100")]
    limits = {**nominal("q", "gpu", 3000), **nominal("q", "flavor/a100", 1000)}
    base = snapshot(nodes, group(ONE, *(item(n) for n in range(1, 9))), queues=queue_tree(limits))
    flavors = [p.members[0].allocations[0].flavor for p in decide(base, POLICY, NOW).placements]
    assert flavors == ["a100", "h100", "h100"]


def test_depth_does_not_matter_and_every_ancestors_limit_holds() -> None:
    for owner in ("ns-p", "p", "team"):
        org = {(owner, "gpu"): hard_limit(owner, "gpu", 2000)}
        base = snapshot(
            [node(1, gpus=8)], group(ONE, *(item(n) for n in range(1, 9))), organisation=org_tree(org)
        )
        assert placed(decide(base, POLICY, NOW)) == [1, 2]


def test_both_trees_answer_by_the_same_functions() -> None:
    queues = queue_tree({**nominal("q", "gpu", 1000, 500), **nominal("cohort", "gpu", 9000)})
    org = org_tree({("p", "gpu"): hard_limit("p", "gpu", 1500)})
    assert potential(queues, "q", "gpu") == potential(org, "ns-p", "gpu") == 1500
    for tree, name in ((queues, "q"), (org, "ns-p")):
        assert available(tree, total_usage(tree, [(name, "gpu", 1200)]), name, "gpu") == 300


def test_wait_and_refuse_are_told_apart() -> None:
    base = snapshot(
        [node(1, gpus=4)], organisation=org_tree({("p", "gpu"): hard_limit("p", "gpu", 1000)})
    )
    busy = started(base, group(ONE, item(1)))
    assert len(over_refusing_limit(busy, ONE)) == 1
    waits = busy.with_(ChangeLimit(hard_limit("p", "gpu", 1000, OnExceed.WAIT)))
    assert over_refusing_limit(waits, ONE) == ()
    assert placed(decide(replace(waits, pending=(group(ONE, item(2)),)), POLICY, NOW)) == []


def test_a_cut_below_what_runs_leaves_it_running_and_starts_nothing_more() -> None:
    base = snapshot([node(1, gpus=4)], queues=queue_tree(nominal("q", "gpu", 3000)))
    busy = started(base, group(ONE, item(1), item(2)))
    (limit,) = nominal("q", "gpu", 1000).values()
    cut = replace(busy.with_(ChangeLimit(limit)), pending=(group(ONE, item(3)),))
    assert available(cut.trees[QUEUE_TREE], cut.usage[QUEUE_TREE], "q", "gpu") == -1000
    decisions = decide(cut, POLICY, NOW)
    assert (placed(decisions), decisions.evictions) == ([], ())


def test_a_lending_limit_set_later_moves_what_flowed_up_without_losing_any() -> None:
    base = snapshot([node(1, gpus=4)], queues=queue_tree(nominal("q", "gpu", 3000)))
    busy = started(base, group(ONE, item(1), item(2)))
    assert busy.usage[QUEUE_TREE]["cohort", "gpu"] == 2000
    (limit,) = nominal("q", "gpu", 3000, lending=2000).values()
    kept_back = busy.with_(ChangeLimit(limit))
    assert kept_back.usage[QUEUE_TREE]["q", "gpu"] == 2000
    assert kept_back.usage[QUEUE_TREE]["cohort", "gpu"] == 1000

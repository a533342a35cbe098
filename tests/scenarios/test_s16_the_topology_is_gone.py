"""S-16: what ends while its nodes, or the labels that made them a domain, are gone leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from steelyard.model.workloads import Topology
from steelyard.scheduling import NodeView, Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    POLICY,
    check_answer,
    ended,
    group,
    item,
    node,
    nominal,
    placed,
    queue_tree,
    recomputed,
    request,
    shape,
    snapshot,
    without_zeros,
)

GANG = replace(shape("gang", request(gpu=2000), count=2), topology=Topology("rack"))
NODES = [node(number, gpus=2, labels={"rack": "r1"}) for number in (1, 2)]


def unlabelled(view: NodeView) -> NodeView:
    return replace(view, labels={})


def cordoned(view: NodeView) -> NodeView:
    return replace(view, schedulable=False)


@pytest.mark.parametrize("change", [unlabelled, cordoned])
def test_the_end_of_a_gang_frees_all_it_had_also_when_its_domain_is_gone(
    change: Callable[[NodeView], NodeView],
) -> None:
    base = snapshot(NODES, group(GANG, item(1)), queues=queue_tree(nominal("q", "gpu", 4000)))
    base = check_answer(base, decide(base, POLICY, NOW))
    assert 1 in base.running
    gone = replace(base, nodes={key: change(view) for key, view in base.nodes.items()})
    after = ended(gone, 1)
    assert without_zeros(recomputed(after)["queue"]) == {}
    restored = {v.id: replace(after.nodes[v.id], labels=v.labels, schedulable=True) for v in NODES}
    back = replace(after, nodes=restored)
    assert placed(decide(replace(back, pending=(group(GANG, item(2)),)), POLICY, NOW)) == [2]


def test_with_the_nodes_themselves_gone_the_next_cycle_neither_fails_nor_gives_them_away() -> None:
    base = snapshot(NODES, group(GANG, item(1)), queues=queue_tree(nominal("q", "gpu", 4000)))
    base = base.apply(decide(base, POLICY, NOW))
    missing: Snapshot = replace(base, nodes={}, pending=(group(GANG, item(2)),), last_looked={})
    decisions = decide(missing, POLICY, NOW)
    assert decisions.placements == ()
    assert decisions.reasons["gang"].reasons

"""S-20: shares that shrink to zero, or weigh nothing, start no ring of evictions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.model.policy import Policy, PreemptionRule, QueueOrder, QueueRules
from steelyard.scheduling import ShapeGroup, Snapshot
from tests.unit.scheduling.build import (
    group,
    item,
    node,
    nominal,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
    started,
)
from tests.unit.scheduling.test_reclaim import frozen

QUEUES = ("a", "b", "c")


def crowded(nominal_of: int, sizes: tuple[int, ...]) -> Snapshot:
    """Three queues that own `nominal_of` each of a pool of six, `a` has all of it, and all want all."""
    limits = {key: limit for name in QUEUES for key, limit in nominal(name, "gpu", nominal_of).items()}
    limits |= nominal("cohort", "gpu", 6000 - 3 * nominal_of)
    base = snapshot([node(1, gpus=4), node(2, gpus=2)], queues=queue_tree(limits, QUEUES))
    kinds = {
        (name, size): shape(f"{name}{size}", request(gpu=size * 1000), queue=name)
        for name in QUEUES
        for size in sizes
    }
    base = started(base, group(kinds["a", 1], *(item(n) for n in range(1, 7))))
    number = iter(range(50, 200))
    groups = [group(each, *(item(next(number)) for _ in range(4))) for each in kinds.values()]
    return replace(base, pending=tuple(groups))


@pytest.mark.parametrize("weights", [(1000, 1000, 1000), (0, 0, 0), (0, 1000, 3000)], ids=str)
@pytest.mark.parametrize("nominal_of", [0, 1000])
@pytest.mark.parametrize("sizes", [(1,), (1, 2, 4)], ids=str)
def test_it_comes_to_rest(weights: tuple[int, int, int], nominal_of: int, sizes: tuple[int, ...]) -> None:
    rules = {name: QueueRules(weight=weight) for name, weight in zip(QUEUES, weights, strict=True)}
    fair = policy(order=QueueOrder.FAIR_SHARE, queues=rules)
    pairs = frozen(crowded(nominal_of, sizes), fair)
    assert not [pair for pair in pairs if pair[::-1] in pairs]
    assert len(pairs) <= 6  # each device changes hands once at most


def test_priorities_that_pull_one_way_and_quotas_the_other_come_to_rest() -> None:
    """The high priority borrows, the low one owns: it is taken back once, and not again."""
    base = crowded(2000, (1,))
    raised = [ShapeGroup(replace(g.shape, priority=9), g.heads, g.count) for g in base.pending[:1]]
    base = replace(base, pending=(*raised, *base.pending[1:]))
    under: Policy = policy(preemption=PreemptionRule(borrow_below=5))
    pairs = frozen(base, under)
    assert not [pair for pair in pairs if pair[::-1] in pairs]

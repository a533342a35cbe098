"""S-17: A evicts B evicts A does not happen, also where whoever may stay is put back first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings

from steelyard.model.policy import Policy, QueueOrder
from steelyard.scheduling import Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
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
from tests.unit.scheduling.test_reclaim import frozen, loads

FAIR = policy(order=QueueOrder.FAIR_SHARE)
SECOND = 1_000_000


def shared(*sizes: int) -> Snapshot:
    """Six devices that belong to the cohort, held by jobs of `b` of these sizes, numbered from 1."""
    base = snapshot([node(1, gpus=6)], queues=queue_tree(nominal("cohort", "gpu", 6000), ("a", "b")))
    for number, size in enumerate(sizes, start=1):
        job = shape(f"b{number}", request(gpu=size * 1000), queue="b")
        base = started(base, group(job, item(number)), at=NOW - (10 - number) * SECOND)
    return base


def test_the_set_that_is_left_after_the_fill_back_is_the_one_that_is_judged() -> None:
    """Taking the small one first and then the large one would look fair step by step; with the small one put
    back, `b` would be left with less than `a` has, and evict it in turn."""
    base = shared(1, 4)
    base = replace(base, pending=(group(shape("a", request(gpu=3000), queue="a"), item(50)),))
    decisions = decide(base, FAIR, NOW)
    assert decisions.evictions == ()
    check_answer(base, decisions)


@pytest.mark.requirement("E7")
def test_shares_come_nearer_and_stay() -> None:
    base = shared(2, 2, 2)
    waiting = group(shape("a", request(gpu=2000), queue="a"), item(50), item(51), item(52))
    others = tuple(shape(f"b{n}", request(gpu=2000), queue="b") for n in (1, 2, 3))
    pairs = frozen(replace(base, pending=(waiting,)), FAIR, None, others)
    assert pairs == [(50, 3)]


@settings(deadline=None, max_examples=30)
@given(loads())
def test_no_two_evict_each_other_while_the_load_is_frozen(load: tuple[Snapshot, Policy]) -> None:
    base, under = load
    pairs = set(frozen(base, replace(under, order=QueueOrder.FAIR_SHARE)))
    assert not [pair for pair in pairs if pair[::-1] in pairs]

"""S-19: nobody is evicted for work that could not be placed afterwards, however often it is tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

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

SECOND = 1_000_000


def borrowed(own: int = 8) -> Snapshot:
    """Four nodes of four devices, all of them held by `b`; `a` owns half of them."""
    limits = {**nominal("a", "gpu", own * 1000), **nominal("b", "gpu", (16 - own) * 1000)}
    base = snapshot([node(n, gpus=4) for n in range(1, 5)], queues=queue_tree(limits, ("a", "b")))
    return started(base, group(shape("b", request(gpu=1000), queue="b"), *(item(n) for n in range(1, 17))))


@pytest.mark.parametrize(
    ("request_of", "count"),
    [(request(gpu=8000), 1), (request(gpu=4000, cpu=65_000), 1), (request(gpu=4000), 3),
     (request(gpu=1000, node_labels=(("disk", "fast"),)), 1)],
    ids=["more than a node has", "other resources are short", "more than is owned", "no node has the label"],
)  # fmt: skip
def test_a_head_that_can_not_be_placed_evicts_nobody(request_of: object, count: int) -> None:
    head = shape("a", request_of, count=count, queue="a", priority=9)  # type: ignore[arg-type]
    base = replace(borrowed(), pending=(group(head, item(50)),))
    for step in range(4):
        decisions = decide(base, policy(), NOW + step * SECOND)
        assert (decisions.evictions, decisions.holds) == ((), ())
        base = check_answer(base, decisions)


def test_what_can_be_placed_has_its_places_before_anybody_is_asked_to_stop() -> None:
    base = replace(borrowed(), pending=(group(shape("a", request(gpu=4000), count=2, queue="a"), item(50)),))
    decisions = decide(base, policy(), NOW)
    (hold,) = decisions.holds
    assert len(hold.members) == 2
    assert len(decisions.evictions) == 8
    assert {e.attempt_id for e in decisions.evictions} == set(hold.victims)
    check_answer(base, decisions)

"""S-32: who is requeued stands where its first submit time puts it, and in nobody's way."""

from __future__ import annotations

from steelyard.model.policy import Policy, QueueingStrategy, QueueRules
from steelyard.model.units import MINUTE
from steelyard.scheduling import decide
from tests.unit.scheduling.build import NOW, group, item, node, placed, request, shape, snapshot

WHOLE = shape("whole", request(gpu=8000))
HALF = shape("half", request(gpu=4000))
NODES = [node(1, gpus=8)]


def test_a_requeued_one_goes_before_all_that_came_after_it_first_did() -> None:
    again = item(1, NOW - 9 * MINUTE, eligible_at=NOW - 1)
    world = snapshot(
        NODES, group(WHOLE, item(2, NOW - 8 * MINUTE), again), group(HALF, item(3, NOW - 10 * MINUTE))
    )
    assert placed(decide(world, Policy(1), NOW)) == [3]
    earlier = snapshot(NODES, group(WHOLE, item(2, NOW - 8 * MINUTE), again))
    assert placed(decide(earlier, Policy(1), NOW)) == [1]


def test_while_it_backs_off_it_is_in_nobodys_way_even_at_the_head_of_a_strict_queue() -> None:
    strict = Policy(1, defaults=QueueRules(strategy=QueueingStrategy.STRICT_FIFO))
    backs_off = item(1, NOW - 9 * MINUTE, not_before=NOW + MINUTE)
    world = snapshot(NODES, group(WHOLE, backs_off), group(HALF, item(2)))
    assert placed(decide(world, strict, NOW)) == [2]
    assert decide(world, strict, NOW).stats.next_at == NOW + MINUTE

"""S-34: how much is decided in a cycle does not fall with what waits, and neither does its cost grow."""

from __future__ import annotations

import pytest

from steelyard.scheduling import decide
from steelyard.scheduling.views import ShapeGroup
from tests.unit.scheduling.build import NOW, item, node, policy, request, shape, snapshot

RULES = policy(max_placements=64)


@pytest.mark.parametrize("waiting", [100, 10_000])
def test_a_cycle_places_as_many_and_looks_as_much_whether_few_wait_or_ten_thousand(waiting: int) -> None:
    shapes = [shape(f"s{number}", request(gpu=1000), queue="q") for number in range(10)]
    each = waiting // len(shapes)
    groups = [
        ShapeGroup(of, tuple(item(number * each + more + 1) for more in range(min(each, 512))), each)
        for number, of in enumerate(shapes)
    ]
    world = snapshot([node(number, gpus=8) for number in range(1, 11)], *groups)
    first = decide(world, RULES, NOW)
    second = decide(world.apply(first), RULES, NOW + 1)
    assert (len(first.placements), len(second.placements)) == (64, 16)
    assert first.stats.tried == 64
    assert first.stats.nodes <= 64 + 10 * 2  # a node that is full is passed over once, not once for each

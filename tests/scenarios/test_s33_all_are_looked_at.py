"""S-33: ten thousand waiting: each is looked at, and told why it waits, within a stated number of cycles."""

from __future__ import annotations

from steelyard.scheduling import decide
from steelyard.scheduling.decide import MAX_EXPLAINED
from steelyard.scheduling.views import ShapeGroup
from tests.unit.scheduling.build import NOW, group, item, node, policy, request, shape, snapshot


def test_every_shape_that_waits_is_told_why_within_the_cycles_that_it_takes_to_explain_all() -> None:
    kinds, each = 1000, 10
    shapes = [shape(f"s{number}", request(gpu=8000, cpu=number + 1)) for number in range(kinds)]
    groups = [
        ShapeGroup(of, tuple(item(number * each + more) for more in range(1, each + 1)), each)
        for number, of in enumerate(shapes)
    ]
    world = snapshot([node(1, gpus=4)], *groups)
    told: set[str] = set()
    cycles = -(-kinds // MAX_EXPLAINED)
    for cycle in range(cycles):
        decisions = decide(world, policy(), NOW + cycle)
        assert decisions.stats.tried == kinds  # all are tried in each of them
        told |= set(decisions.looked)
        world = world.apply(decisions)
    assert told == {of.key for of in shapes}


def test_a_cycle_looks_at_all_or_places_as_many_as_it_may() -> None:
    most, waiting = 8, 100
    number = iter(range(1, 1000))
    groups = [
        group(shape(f"s{kind}", request(gpu=1000)), *(item(next(number)) for _ in range(10)))
        for kind in range(10)
    ]
    world = snapshot([node(each, gpus=8) for each in range(1, 9)], *groups)
    rules, cycles, started = policy(max_placements=most), 0, 0
    while True:
        decisions = decide(world, rules, NOW)
        cycles, started = cycles + 1, started + len(decisions.placements)
        world = world.apply(decisions)
        if not decisions.stats.more:
            break
        assert len(decisions.placements) == most
    assert started == 64
    assert cycles <= waiting // most + 1

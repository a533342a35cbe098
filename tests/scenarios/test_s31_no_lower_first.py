"""S-31: a lower priority never goes before a higher one that it harms; what harms nobody it may do."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import Policy, PriorityClass, QueueOrder
from steelyard.scheduling import decide
from tests.unit.scheduling.build import NOW, group, item, node, placed, request, shape, snapshot


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 3), st.integers(0, 5)), min_size=2, max_size=8),
       st.sampled_from(list(QueueOrder)))  # fmt: skip
def test_what_waits_while_a_lower_one_starts_would_not_have_fit_in_its_place(
    asked: list[tuple[int, int, int]], order: QueueOrder
) -> None:
    shapes = [
        shape(f"s{index}", request(gpu=amount * 1000), priority=priority)
        for index, (amount, priority, _) in enumerate(asked)
    ]
    groups = [group(of, item(n + 1, NOW - asked[n][2])) for n, of in enumerate(shapes)]
    world = snapshot([node(1, gpus=6)], *groups)
    started = placed(decide(world, Policy(1, order=order), NOW))
    free = 6
    for attempt in started:  # in the order in which they were looked at
        free -= asked[attempt - 1][0]
    for number, (amount, priority, _) in enumerate(asked, 1):
        if number in started:
            continue
        lower = sum(asked[other - 1][0] for other in started if asked[other - 1][1] < priority)
        assert amount > free + lower


def test_a_low_one_that_harms_nobody_goes_beside_a_high_one_that_does_not_fit() -> None:
    high, low = shape("high", request(gpu=9000), priority=9), shape("low", request(gpu=1000))
    assert placed(
        decide(snapshot([node(1, gpus=8)], group(high, item(1)), group(low, item(2))), Policy(1), NOW)
    ) == [2]


def test_a_class_that_ages_goes_first_only_by_its_declared_time() -> None:
    classes = {"low": PriorityClass(1, ageing=10), "high": PriorityClass(9)}
    made = [
        (shape(name, request(gpu=8000), priority=classes[name].value), at)
        for name, at in (("low", NOW - 11), ("high", NOW))
    ]
    groups = [group(replace(of, priority_class=of.key), item(n, at)) for n, (of, at) in enumerate(made, 1)]
    assert placed(decide(snapshot([node(1, gpus=8)], *groups), Policy(1, classes=classes), NOW)) == [1]

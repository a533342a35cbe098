"""Which of equals goes first: who came first, who has the least to do, or who was served the least."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import Policy, Precedence, QueueRules
from steelyard.model.units import HOUR
from steelyard.model.workloads import Shape
from steelyard.scheduling import PendingItem, decide
from steelyard.scheduling.factors import FactorName, decides, factors
from steelyard.scheduling.precedence import FACTOR, FIRST_LEVEL, level
from tests.unit.scheduling.build import NOW, group, item, node, placed, policy, request, shape, snapshot


def sized(key: str, gpus: int, hours: int | None, **fields: int) -> Shape:
    made = shape(key, request(gpu=gpus * 1000), **fields)
    return replace(made, time_limit=None if hours is None else hours * HOUR)


def by(precedence: Precedence) -> Policy:
    return policy(queues={"q": QueueRules(precedence=precedence, reservations=0)})


LONG = (sized("long", 1, 9), item(1))
SMALL = (sized("small", 1, 2), item(2))
WIDE = (sized("wide", 4, 1), item(3))
UNBOUNDED = (sized("unbounded", 1, None), item(4))
SERVED = (sized("served", 1, 9), item(5, served=8 * HOUR))


def order(rules: Policy, *waits: tuple[Shape, PendingItem]) -> list[int]:
    base = snapshot([node(1, gpus=8)], *(group(each, head) for each, head in waits))
    return placed(decide(base, rules, NOW))


@pytest.mark.parametrize(
    ("precedence", "expected"),
    [
        (Precedence.FIRST_COME, [1, 2, 3, 4, 5]),
        (Precedence.SHORTEST_FIRST, [5, 2, 3, 1, 4]),
        (Precedence.LEAST_SERVED, [1, 2, 3, 4, 5]),
    ],
)
def test_the_order_is_as_the_queue_declares(precedence: Precedence, expected: list[int]) -> None:
    assert order(by(precedence), LONG, SMALL, WIDE, UNBOUNDED, SERVED) == expected


def test_who_was_served_less_goes_first_by_levels_and_within_a_level_who_came_first() -> None:
    served = enumerate((90, 5, 63, 3), 1)
    heads = [(sized(f"s{n}", 1, None), item(n, served=hours * HOUR)) for n, hours in served]
    assert order(by(Precedence.LEAST_SERVED), *heads) == [4, 2, 3, 1]


def test_a_higher_priority_and_what_is_due_go_before_whatever_is_smaller() -> None:
    high = (sized("high", 1, 9, priority=5), item(9))
    assert order(by(Precedence.SHORTEST_FIRST), SMALL, high) == [9, 2]
    rules = QueueRules(precedence=Precedence.SHORTEST_FIRST, reservations=0, starvation_bound=2 * HOUR)
    new, due = (SMALL[0], item(2, NOW)), (LONG[0], item(1, NOW - HOUR))
    assert order(policy(queues={"q": rules}), new, due)[0] == 1


def test_which_of_a_shape_goes_first_follows_the_same_rule() -> None:
    one = sized("one", 8, 9)
    base = snapshot([node(1, gpus=8)], group(one, item(1), item(2, served=3 * HOUR)))
    assert placed(decide(base, by(Precedence.SHORTEST_FIRST), NOW)) == [2]


@pytest.mark.parametrize(
    ("precedence", "a", "b", "name"),
    [
        (Precedence.SHORTEST_FIRST, SMALL, LONG, FactorName.REMAINING),
        (Precedence.SHORTEST_FIRST, LONG, UNBOUNDED, FactorName.REMAINING),
        (Precedence.LEAST_SERVED, LONG, SERVED, FactorName.SERVED_LEVEL),
        (Precedence.FIRST_COME, LONG, SMALL, FactorName.TIME),
    ],
)
def test_why_one_is_before_the_other_names_the_rule(
    precedence: Precedence, a: tuple[Shape, PendingItem], b: tuple[Shape, PendingItem], name: FactorName
) -> None:
    base = snapshot([node(1, gpus=8)], *(group(each, head) for each, head in (a, b)))
    found = decides(factors(base, by(precedence), NOW, a, b))
    assert found is not None
    assert (found.name, found.first) == (name, -1)


@given(st.integers(0, 10**24))
def test_levels_grow_by_the_same_factor(service: int) -> None:
    found = level(service)
    assert service < FIRST_LEVEL * FACTOR**found
    assert found == 0 or service >= FIRST_LEVEL * FACTOR ** (found - 1)

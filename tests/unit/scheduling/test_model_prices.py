"""A model has a price just where one device more of it would serve more; what can go elsewhere keeps away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import NodeOrder
from steelyard.model.workloads import MemberRequest
from steelyard.scheduling import Snapshot, decide
from steelyard.scheduling.prices import DEVICE, Prices
from steelyard.services.model_prices import Models, model_prices
from steelyard.services.price_lists import Stock, price_list
from tests.unit.scheduling.build import (
    GPU,
    NOW,
    check_answer,
    group,
    item,
    node,
    placed,
    policy,
    request,
    shape,
    snapshot,
)

VALUE = policy(nodes=NodeOrder.NODE_VALUE)
NAMES = ("a", "b", "c")
sets = st.frozensets(st.sampled_from(NAMES))
demand = st.dictionaries(sets, st.integers(1, 40), min_size=1, max_size=6)
capacities = st.fixed_dictionaries(dict.fromkeys(NAMES, st.integers(0, 30)))


def served(asked: Mapping[Models, int], capacity: Mapping[str, int]) -> int:
    """The most that can be served: the least cut, over all sets of models."""
    every = frozenset(name for name in capacity if capacity[name])
    demands = [((models & every) if models else every, amount) for models, amount in asked.items()]
    kinds = chain.from_iterable(combinations(sorted(capacity), size) for size in range(len(capacity) + 1))
    return min(
        sum(capacity[name] for name in kept)
        + sum(amount for models, amount in demands if models and not models <= set(kept))
        for kept in kinds
    )


@given(demand, capacities)
@settings(max_examples=200, deadline=None)
def test_a_model_has_a_price_just_where_more_of_it_would_serve_more(
    asked: dict[Models, int], capacity: dict[str, int]
) -> None:
    total, there = sum(asked.values()), sum(capacity.values())
    found = model_prices(asked, capacity)
    scaled = {models: amount * there // total for models, amount in asked.items()}
    now = served(scaled, capacity)
    short = {
        name
        for name in capacity
        if capacity[name] and served(scaled, {**capacity, name: capacity[name] + 1}) > now
    }
    is_told_apart = any(asked) and len(short) < sum(amount > 0 for amount in capacity.values())
    assert dict(found) == (dict.fromkeys(short, DEVICE) if is_told_apart else {})
    assert model_prices(dict(reversed(asked.items())), dict(reversed(capacity.items()))) == found


def test_a_mix_that_names_no_model_prices_none() -> None:
    assert model_prices({frozenset(): 900}, {"a": 100, "b": 10}) == ()
    assert model_prices({frozenset({"b"}): 50, frozenset(): 950}, {"a": 900, "b": 100}) == ()
    assert model_prices({frozenset({"b"}): 200, frozenset(): 800}, {"a": 900, "b": 100}) == (("b", DEVICE),)
    assert model_prices({frozenset({"gone"}): 200, frozenset(): 800}, {"a": 900, "b": 100}) == ()


def two_models(*groups: object) -> Snapshot:
    """One device each; `a100` comes first by id and has a price."""
    prices = {GPU: Prices(1, ((500, 500_000, 1_000),), ((1, 1_000),), (("a100", DEVICE),))}
    nodes = [node(1, gpus=1, cpu=64_000, flavor="a100"), node(2, gpus=1, cpu=64_000, flavor="h100")]
    return snapshot(nodes, *groups, prices=prices)  # type: ignore[arg-type]


def test_what_can_run_anywhere_keeps_away_from_a_model_that_is_short_and_is_not_held_back() -> None:
    free = group(shape("free", request(gpu=1000, cpu=1000)), item(1), item(2), item(3))
    before = two_models(free)
    decisions = decide(before, VALUE, NOW)
    check_answer(before, decisions)
    assert [each.members[0].node_id for each in decisions.placements] == [2, 1]
    only = MemberRequest(request(gpu=1000, cpu=1000).amounts, models=("a100",))
    named = group(shape("named", only), item(9))
    assert [each.members[0].node_id for each in decide(two_models(named), VALUE, NOW).placements] == [1]


parts = st.lists(st.sampled_from([100, 500, 700, 1000, 2000]), min_size=1, max_size=8)


@given(parts, st.sets(st.sampled_from(["a100", "h100"])), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_with_prices_of_models_nothing_that_fits_is_held_back(
    asked: list[int], short: set[str], first: int, second: int
) -> None:
    models = tuple((model, DEVICE) for model in sorted(short))
    prices = {GPU: Prices(1, ((500, 500_000, 1_000),), ((1, 1_000),), models)}
    nodes = [
        node(1, gpus=first, cpu=64_000, flavor="a100"), node(2, gpus=second, cpu=64_000, flavor="h100"),
        node(3, cpu=1_000),
    ]  # fmt: skip
    groups = [group(shape(f"s{n}", request(gpu=gpu, cpu=1000)), item(n + 1)) for n, gpu in enumerate(asked)]
    before = snapshot(nodes, *groups, prices=prices)
    decisions = decide(before, VALUE, NOW)
    after = check_answer(before, decisions)
    assert placed(decide(replace(after, last_looked={}), policy(), NOW)) == []


def test_a_list_prices_the_models_that_requests_name_one_way_or_another() -> None:
    stock = Stock({GPU: {"a100": 2_000, "h100": 8_000}}, {"fa": frozenset({"a100"})})
    free = shape("free", request(gpu=1000, cpu=1000))
    by_model = shape("m", MemberRequest(request(gpu=1000, cpu=1000).amounts, models=("a100",)))
    by_flavor = shape("f", MemberRequest(request(gpu=1000, cpu=1000).amounts, flavors=("fa",)))
    for named in (by_model, by_flavor):
        found = price_list([(free, 60), (named, 40)], 5, stock)
        assert found[GPU].models == (("a100", DEVICE),)
    assert price_list([(free, 90), (by_model, 10)], 5, stock)[GPU].models == ()
    assert price_list([(free, 60), (by_model, 40)], 5)[GPU].models == ()

"""Models by advantage: the most progress, nothing left free, nobody passed for longer than a cycle."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import ModelOrder
from steelyard.model.workloads import Shape
from steelyard.scheduling import Snapshot, decide
from steelyard.scheduling.alternatives import fifth_root
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    group,
    item,
    node,
    nominal,
    placed,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
)

ADVANTAGE = policy(models=ModelOrder.ADVANTAGE)
Speeds = tuple[tuple[str, int], ...]


def job(key: str, *, gpu: int = 1000, queue: str = "q", limit: int | None = None, **speeds: int) -> Shape:
    made = shape(key, request(gpu=gpu), queue=queue)
    return replace(made, speeds=tuple(sorted(speeds.items())), time_limit=limit)


def models(before: Snapshot, at: object = ADVANTAGE) -> dict[int, str]:
    decisions = decide(before, at, NOW)  # type: ignore[arg-type]
    check_answer(before, decisions)
    return {each.attempt_id: each.members[0].allocations[0].flavor for each in decisions.placements}


def two_models(fast: int = 1, slow: int = 1) -> list[object]:
    return [node(1, gpus=fast, flavor="fast"), node(2, gpus=slow, flavor="slow")]


def test_a_model_goes_to_the_work_for_which_the_other_is_worst() -> None:
    waiting = [
        group(job("any", fast=1000, slow=900), item(1)),
        group(job("picky", fast=1000, slow=100), item(2)),
    ]
    before = snapshot(two_models(), *waiting)  # type: ignore[arg-type]
    assert models(before) == {1: "slow", 2: "fast"}
    assert models(before, policy()) == {1: "fast", 2: "slow"}


def test_of_equals_who_came_first_is_served() -> None:
    same = job("same", fast=1000, slow=100)
    before = snapshot([node(1, gpus=1, flavor="fast")], group(same, item(1), item(2), item(3)))
    assert models(before) == {1: "fast"}


def test_a_model_on_which_it_was_not_verified_is_never_taken() -> None:
    for at in (ADVANTAGE, policy()):
        before = snapshot(two_models(0, 1), group(job("only", fast=1000), item(1)))  # type: ignore[arg-type]
        assert models(before, at) == {}
    both = group(job("both", fast=1000, slow=10), item(2))
    before = snapshot(two_models(), group(job("only", fast=1000), item(1)), both)  # type: ignore[arg-type]
    assert models(before) == {1: "fast", 2: "slow"}


def test_short_work_has_a_slight_weight() -> None:
    hour = 3_600_000_000
    waiting = [
        group(job("long", limit=100 * hour, fast=1000), item(1)),
        group(job("short", limit=hour, fast=1000), item(2)),
    ]
    assert models(snapshot([node(1, gpus=1, flavor="fast")], *waiting)) == {2: "fast"}


def test_where_the_quota_keeps_the_best_from_starting_the_others_take_the_devices() -> None:
    tree = queue_tree(nominal("q", "flavor/fast", 0, borrowing=0))
    waiting = [
        group(job("picky", fast=1000, slow=100), item(1)),
        group(job("any", fast=1000, slow=900), item(2)),
    ]
    before = snapshot(two_models(), *waiting, queues=tree)  # type: ignore[arg-type]
    assert models(before) == {2: "slow"}


def test_a_higher_priority_is_not_passed_for_a_better_use() -> None:
    high = replace(job("high", fast=1000, slow=900), priority=5)
    low = group(job("low", slow=1000), item(1))
    before = snapshot([node(1, gpus=1, flavor="slow")], group(high, item(2)), low)
    assert models(before) == {2: "slow"}


speeds = st.integers(0, 1000)
jobs = st.lists(
    st.tuples(st.sampled_from([500, 1000, 2000]), speeds, speeds, st.integers(1, 3)), min_size=1, max_size=8
)


@given(jobs, st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_nothing_stays_free_for_the_sake_of_a_better_use(
    waiting: list[tuple[int, int, int, int]], fast: int, slow: int
) -> None:
    groups = []
    for number, (gpu, on_fast, on_slow, count) in enumerate(waiting):
        items = [item(number * 10 + each + 1) for each in range(count)]
        groups.append(group(job(f"s{number}", gpu=gpu, fast=on_fast, slow=on_slow), *items))
    before = snapshot([*two_models(fast, slow), node(3)], *groups)  # type: ignore[list-item]
    decisions = decide(before, ADVANTAGE, NOW)
    after = check_answer(before, decisions)
    assert placed(decide(replace(after, last_looked={}), policy(), NOW)) == []


@given(st.integers(0, 10**15))
def test_a_fifth_root_is_the_largest_whole_one(length: int) -> None:
    found = fifth_root(length)
    wanted = length * 10**15 // 10**6
    assert found == 1 or found**5 <= wanted
    assert (found + 1) ** 5 > wanted

"""Speeds that finished runs taught, and what a choice of model says of itself."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import ModelOrder
from steelyard.model.workloads import Shape
from steelyard.scheduling import Snapshot, decide, explain
from steelyard.scheduling.model_choice import speeds_of
from steelyard.scheduling.run_times import MIN_SAMPLE, Learned, RunTimes
from tests.unit.scheduling.build import NOW, check_answer, group, item, node, placed, policy, request, shape
from tests.unit.scheduling.build import snapshot as made

ADVANTAGE = policy(models=ModelOrder.ADVANTAGE)


def runs(took: int, count: int = MIN_SAMPLE) -> Learned:
    return Learned(count, (took,) * count)


def taught(**models: Learned) -> RunTimes:
    """Of template `t` on one device; of template `even` that each model is as fast."""
    even = dict.fromkeys(models, runs(10))
    return RunTimes(7, {}, {"template/t/1000": models, "template/even/1000": even})


def job(key: str, template: str | None = "t", **speeds: int) -> Shape:
    wanted = shape(key, request(gpu=1000), queue="q")
    return replace(wanted, template=template, speeds=tuple(sorted(speeds.items())))


def two_models(*groups: object, fast: int = 1, slow: int = 1, **fields: object) -> Snapshot:
    nodes = [node(1, gpus=fast, flavor="fast"), node(2, gpus=slow, flavor="slow")]
    return made(nodes, *groups, **fields)  # type: ignore[arg-type]


def starts(before: Snapshot, at: object = ADVANTAGE) -> dict[int, str]:
    decisions = decide(before, at, NOW)  # type: ignore[arg-type]
    check_answer(before, decisions)
    return {each.attempt_id: each.members[0].allocations[0].flavor for each in decisions.placements}


def test_speeds_are_the_medians_of_runs_of_that_template_and_size() -> None:
    times = taught(fast=runs(10), slow=Learned(9, (20, 25, 25, 25, 900)))
    assert [(each.model, each.speed, each.runs) for each in speeds_of(job("a"), times)] == [
        ("fast", 1000, 5), ("slow", 400, 9),
    ]  # fmt: skip
    assert speeds_of(replace(job("a"), template="t@3"), times) == speeds_of(job("a"), times)
    other = replace(job("a"), roles=(("main", 2, request(gpu=1000)),))
    assert [speeds_of(each, times) for each in (other, job("a", "u"), job("a", None))] == [()] * 3


def test_too_few_runs_on_either_model_teach_nothing() -> None:
    few = runs(1, MIN_SAMPLE - 1)
    assert speeds_of(job("a"), taught(fast=runs(10), slow=few)) == ()
    assert speeds_of(job("a"), taught(fast=runs(10))) == ()
    three = taught(fast=runs(10), slow=runs(20), new=few)
    assert [each.model for each in speeds_of(job("a"), three)] == ["fast", "slow"]


def test_what_is_declared_goes_before_what_was_learned() -> None:
    found = speeds_of(job("a", fast=500, slow=1000), taught(fast=runs(10), slow=runs(20)))
    assert [(each.model, each.speed, each.runs) for each in found] == [
        ("fast", 500, None), ("slow", 1000, None),
    ]  # fmt: skip


def test_learned_speeds_order_who_takes_which_model() -> None:
    waiting = (group(job("any", "even"), item(1)), group(job("picky"), item(2)))
    before = two_models(*waiting, run_times=taught(fast=runs(10), slow=runs(100)))
    assert starts(before) == {1: "slow", 2: "fast"}
    assert starts(replace(before, run_times=RunTimes())) == {1: "fast", 2: "slow"}
    assert starts(before, policy()) == {1: "fast", 2: "slow"}


def test_a_model_of_which_nothing_was_learned_is_taken_in_the_end() -> None:
    nodes = [node(1, gpus=1, flavor="fast"), node(3, gpus=1, flavor="unknown")]
    before = made(nodes, group(job("a"), item(1), item(2)), run_times=taught(fast=runs(10), slow=runs(20)))
    assert starts(before) == {1: "fast", 2: "unknown"}


def test_a_start_says_what_it_took_and_beside_what() -> None:
    waiting = (group(job("any", "even"), item(1)), group(job("picky"), item(2)))
    before = two_models(*waiting, fast=1, slow=3, run_times=taught(fast=runs(10), slow=runs(100)))
    any_one, picky = decide(before, ADVANTAGE, NOW).choices
    assert (any_one.attempt_id, any_one.flavor, any_one.assigned) == (1, "slow", True)
    assert [(o.model, o.speed, o.runs, o.room, o.given) for o in picky.options] == [
        ("fast", 1000, 5, 1, 1), ("slow", 100, 5, 3, 1),
    ]  # fmt: skip
    assert picky.flavor == "fast"
    found = explain(before, ADVANTAGE, NOW, job("picky")).models
    assert found is not None
    assert (found.flavor, found.options) == ("fast", picky.options)


def test_who_waits_is_told_which_models_it_could_take() -> None:
    wanted = job("a", fast=1000, slow=250, gone=900)
    before = two_models(group(wanted, item(1), item(2), item(3)))
    found = explain(before, ADVANTAGE, NOW, wanted, item(3)).models
    assert found is not None
    assert found.flavor is None
    assert [(o.model, o.flavor, o.speed, o.room) for o in found.options] == [
        ("fast", "fast", 1000, 0), ("gone", None, 900, None), ("slow", "slow", 250, 0),
    ]  # fmt: skip
    assert explain(before, ADVANTAGE, NOW, job("b", None)).models is None


samples = st.lists(st.integers(1, 9), min_size=MIN_SAMPLE - 1, max_size=MIN_SAMPLE + 2)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=5), st.integers(0, 3),
       st.integers(0, 3), samples, samples)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_learning_keeps_nothing_free_and_its_choices_add_up(
    waiting: list[tuple[bool, int]], fast: int, slow: int, on_fast: list[int], on_slow: list[int]
) -> None:
    groups = []
    for number, (is_t, count) in enumerate(waiting):
        items = [item(number * 10 + each + 1) for each in range(count)]
        groups.append(group(job(f"s{number}", "t" if is_t else None), *items))
    learned = {
        name: Learned(len(took), tuple(sorted(took))) for name, took in (("fast", on_fast), ("slow", on_slow))
    }
    before = two_models(*groups, fast=fast, slow=slow, run_times=taught(**learned))
    decisions = decide(before, ADVANTAGE, NOW)
    after = check_answer(before, decisions)
    assert placed(decide(replace(after, last_looked={}), policy(), NOW)) == []
    assert len(decisions.placements) == min(fast + slow, sum(count for _, count in waiting))
    taken = {each.attempt_id: each.members[0].allocations[0].flavor for each in decisions.placements}
    for choice in decisions.choices:
        assert choice.flavor == taken[choice.attempt_id]
        assert all(o.given is None or 0 <= o.given <= (o.room or 0) for o in choice.options)
        assert not choice.assigned or any(o.flavor == choice.flavor and o.given for o in choice.options)

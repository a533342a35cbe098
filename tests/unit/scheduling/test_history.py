"""Decayed use: its half-life, its grid, its entry penalty."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import QUEUE_TREE, Fairness
from steelyard.model.units import HOUR, MINUTE
from steelyard.scheduling import Charge
from steelyard.scheduling.history import ONE, UNIT, Past, decayed, history_of, penalty, retained, start
from tests.unit.scheduling.build import nominal, queue_tree

WHO = ("q", "p", "u", "gpu")


def test_after_one_half_life_half_is_left() -> None:
    assert retained(HOUR, HOUR) == ONE // 2
    assert decayed({WHO: 8000 * UNIT}, {}, HOUR, HOUR) == {WHO: 4000 * UNIT}


@settings(deadline=None)
@given(st.integers(1, 500), st.integers(1, 500))
def test_decay_in_two_steps_is_decay_in_one(first: int, second: int) -> None:
    two = retained(first * MINUTE, HOUR) * retained(second * MINUTE, HOUR) // ONE
    assert abs(two - retained((first + second) * MINUTE, HOUR)) <= 1 << 12


@settings(deadline=None)
@given(st.integers(1, 10**9), st.integers(1, 10**9))
def test_what_is_left_is_as_a_float_has_it(elapsed: int, half_life: int) -> None:
    assert abs(retained(elapsed, half_life) / ONE - 0.5 ** (elapsed / half_life)) < 1e-9


def test_steady_use_is_what_was_used_lately() -> None:
    own: dict = {}
    for _ in range(300):
        own = decayed(own, {WHO: 3000 * 5 * MINUTE}, 5 * MINUTE, HOUR)
    assert abs(own[WHO] - 3000 * UNIT) <= 3000 * UNIT // 10**6


@settings(deadline=None)
@given(st.lists(st.integers(0, 8000), min_size=1, max_size=40))
def test_it_never_exceeds_the_most_that_was_ever_used(amounts: list[int]) -> None:
    own: dict = {}
    for amount in amounts:
        own = decayed(own, {WHO: amount * 5 * MINUTE}, 5 * MINUTE, HOUR)
        assert 0 <= own.get(WHO, 0) <= max(amounts) * UNIT


def test_what_has_faded_to_nothing_is_left_out() -> None:
    assert decayed({WHO: 1}, {}, HOUR, HOUR) == {}


def test_a_start_is_charged_as_if_it_ran_for_a_whole_step() -> None:
    fairness, tree = Fairness(HOUR, 5 * MINUTE), queue_tree(nominal("q", "gpu", 1000))
    charges = (Charge(QUEUE_TREE, "q", "gpu", 2000), Charge("organisation", "ns-p", "gpu", 2000))
    started: dict = {}
    start(started, ("q", "p", "u"), charges)
    past = Past(history_of(tree, 0, {}, started), fairness, tree)
    whole_step = decayed({}, {WHO: 2000 * 5 * MINUTE}, 5 * MINUTE, HOUR)[WHO]
    for found in (past.node("q", "gpu"), past.node("cohort", "gpu"), past.of("q", "p", "", "gpu"),
                  past.of("q", "p", "u", "gpu")):
        assert abs(found - whole_step) <= 1
    past.start(("q", "p", "v"), charges)
    assert abs(past.of("q", "p", "", "gpu") - 2 * whole_step) <= 2
    assert abs(past.of("q", "p", "u", "gpu") - whole_step) <= 1


def test_without_a_half_life_nothing_is_charged() -> None:
    assert penalty(Fairness(0)) == 0
    past = Past(history_of(queue_tree(), 0, {WHO: UNIT}), Fairness(0), queue_tree())
    past.start(("q", "p", "u"), (Charge(QUEUE_TREE, "q", "gpu", 2000),))
    assert not past.counts
    assert past.of("q", "p", "u", "gpu") == 0


def test_sums_are_of_users_projects_queues_and_cohorts() -> None:
    own = {("q", "p", "u", "gpu"): 3, ("q", "p", "v", "gpu"): 4, ("r", "p", "u", "gpu"): 5}
    history = history_of(queue_tree({}, ("q", "r")), 7, own)
    assert history.sums["q", "p", "", "gpu"] == 7
    assert history.sums["q", "p", "u", "gpu"] == 3
    assert history.nodes["cohort", "gpu"] == 12
    assert history.nodes["r", "gpu"] == 5


def test_what_a_queue_keeps_back_is_not_use_of_its_cohort() -> None:
    tree = queue_tree(nominal("q", "gpu", 4000, None, 1000))
    history = history_of(tree, 0, {("q", "p", "", "gpu"): 3500 * UNIT})
    assert history.nodes["cohort", "gpu"] == 500 * UNIT

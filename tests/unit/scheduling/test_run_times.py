"""What finished runs tell of one that is under way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.scheduling.run_times import MIN_SAMPLE, Learned, RunTimes, keys_of

TEN = RunTimes(1, {"kind/batch": Learned(10, tuple(range(10, 110, 10)))})


def test_a_share_of_the_runs_had_ended_within_that_time() -> None:
    assert TEN.within(["kind/batch"], 0, 100) == 10
    assert TEN.within(["kind/batch"], 0, 500) == 50
    assert TEN.within(["kind/batch"], 0, 900) == 90
    assert TEN.within(["kind/batch"], 0, 1000) == 100


def test_runs_that_were_shorter_than_this_one_is_already_say_nothing() -> None:
    assert TEN.within(["kind/batch"], 50, 1) == 60
    assert TEN.within(["kind/batch"], 50, 1000) == 100


def test_too_few_runs_say_nothing() -> None:
    assert TEN.within(["kind/batch"], 60, 500) is None
    assert TEN.within(["kind/training"], 0, 500) is None


def test_the_nearest_key_that_knows_enough_decides() -> None:
    times = RunTimes(2, {**TEN.by_key, "template/tune": Learned(5, (1, 2, 3, 4, 5))})
    assert times.within(keys_of("tune@3", "batch"), 0, 1000) == 5
    assert times.within(keys_of("tune@3", "batch"), 3, 1000) == 100
    assert times.within(keys_of(None, "batch"), 0, 1000) == 100


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=64), st.integers(0, 1000), st.integers(1, 1000))
def test_a_greater_share_never_ends_sooner_and_no_run_ended_before_now(
    runs: list[int], elapsed: int, permille: int
) -> None:
    times = RunTimes(1, {"kind/batch": Learned(len(runs), tuple(sorted(runs)))})
    found = times.within(["kind/batch"], elapsed, permille)
    longer = [run for run in runs if run > elapsed]
    assert (found is None) == (len(longer) < MIN_SAMPLE)
    if found is not None:
        assert found > elapsed
        assert sum(run <= found for run in longer) * 1000 >= permille * len(longer)
        later = times.within(["kind/batch"], elapsed, 1000)
        assert later is not None
        assert found <= later

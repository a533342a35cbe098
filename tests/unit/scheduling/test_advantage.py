"""The assignment of work to models: the most progress, by whom came first where that is equal."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.scheduling.advantage import MOST_CLAIMS, assign

rows = st.integers(1, 3).flatmap(
    lambda kinds: st.tuples(
        st.lists(st.lists(st.integers(0, 6), min_size=kinds, max_size=kinds), max_size=6),
        st.lists(st.integers(0, 3), min_size=kinds, max_size=kinds),
    )
)


def worth(values: list[list[int]], taken: list[int | None]) -> int:
    return sum(row[kind] for row, kind in zip(values, taken, strict=True) if kind is not None)


def best(values: list[list[int]], room: list[int]) -> int:
    choices = [None, *range(len(room))]
    return max(
        worth(values, list(each))
        for each in product(choices, repeat=len(values))
        if all(each.count(kind) <= room[kind] for kind in range(len(room)))
    )


@given(rows)
@settings(max_examples=300, deadline=None)
def test_no_other_assignment_makes_more_progress(case: tuple[list[list[int]], list[int]]) -> None:
    values, room = case
    taken = assign(values, room)
    assert all(taken.count(kind) <= room[kind] for kind in range(len(room)))
    assert all(row[kind] > 0 for row, kind in zip(values, taken, strict=True) if kind is not None)
    assert worth(values, taken) == best(values, room)


@given(rows)
@settings(max_examples=200, deadline=None)
def test_no_device_stays_free_that_somebody_could_use(case: tuple[list[list[int]], list[int]]) -> None:
    values, room = case
    taken = assign(values, room)
    for row, kind in zip(values, taken, strict=True):
        if kind is None:
            assert not any(
                value > 0 and taken.count(other) < room[other] for other, value in enumerate(row)
            )


def test_a_model_goes_to_the_work_for_which_the_others_are_worst() -> None:
    assert assign([[1000, 900], [1000, 100]], [1, 1]) == [1, 0]


def test_of_equals_the_first_is_served() -> None:
    assert assign([[1000, 400], [1000, 400], [1000, 400]], [1, 1]) in ([0, 1, None], [1, 0, None])
    assert assign([[5], [5], [5]], [2]) == [0, 0, None]


def test_more_claims_than_are_looked_at_are_not_taken() -> None:
    with pytest.raises(ValueError):
        assign([[1]] * (MOST_CLAIMS + 1), [1])

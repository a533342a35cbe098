"""Axes: round marks that a person can read, and places that keep their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.units import DAY, MINUTE, SECOND
from steelyard.reports.drawing.scale import AmountAxis, TimeAxis, clock, date_and_time

START = 1_780_000_000_000_000


@given(st.integers(0, 2**52), st.integers(1, 400 * DAY), st.integers(2, 12))
def test_time_marks_lie_within_the_window_and_are_few(t0: int, span: int, most: int) -> None:
    axis = TimeAxis(t0, t0 + span, 0.0, 100.0)
    ticks = axis.ticks(most)
    assert len(ticks) <= most + 1
    assert all(t0 <= at <= t0 + span for at, _ in ticks)


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_later_lies_further_right(a: int, b: int) -> None:
    axis = TimeAxis(0, 10**9, 0.0, 500.0)
    assert (a <= b) == (axis.x(a) <= axis.x(b)) or a == b or axis.x(a) == axis.x(b)


def test_marks_of_a_minute_are_round_seconds() -> None:
    axis = TimeAxis(START, START + MINUTE, 0.0, 100.0)
    assert {at % (10 * SECOND) for at, _ in axis.ticks(8)} == {0}


def test_a_label_at_the_right_border_stands_to_the_left_of_it() -> None:
    axis = TimeAxis(0, 100, 0.0, 500.0)
    assert (axis.anchor(99), axis.anchor(50)) == ("end", "mid")


def test_what_is_not_known_is_a_dash() -> None:
    assert (clock(None), date_and_time(None)) == ("–", "–")


def test_an_instant_is_shown_with_its_zone() -> None:
    assert date_and_time(START) == "2026-05-28 20:26:40 UTC"


@given(st.integers(0, 10**15), st.integers(2, 10))
def test_an_amount_axis_holds_its_greatest_amount_in_few_round_steps(greatest: int, most: int) -> None:
    axis = AmountAxis.over(greatest, 100.0, 0.0, most)
    assert axis.top >= greatest
    assert len(axis.ticks()) <= most + 1
    assert str(axis.step).rstrip("0") in ("1", "2", "5")


def test_the_last_label_does_not_cover_the_one_before() -> None:
    axis = TimeAxis(START, START + 14 * SECOND, 0.0, 500.0)
    places = [(axis.x(at), axis.anchor(at)) for at, _ in axis.ticks(8)]
    assert [x for x, anchor in places if anchor == "end"] == []
    assert len(places) == 7

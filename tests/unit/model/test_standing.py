"""A whole stands as its worst part does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.standing import Standing, worst_of


@pytest.mark.requirement("O15")
def test_a_whole_is_as_its_worst_part_and_nothing_is_known_of_none() -> None:
    yes, pending, no = Standing.VERIFIED, Standing.PENDING, Standing.REFUSED
    assert worst_of([yes, yes]) is yes
    assert worst_of([yes, pending, yes]) is pending
    assert worst_of([pending, no]) is no
    assert worst_of([]) is pending
    assert worst_of([worst_of([yes, pending]), yes]) is worst_of([yes, pending, yes])


@pytest.mark.requirement("O15")
@given(st.lists(st.sampled_from(Standing)), st.lists(st.sampled_from(Standing)))
def test_no_grouping_of_parts_makes_a_pending_one_disappear(
    one: list[Standing], other: list[Standing]
) -> None:
    order = list(Standing)
    whole = worst_of([*one, *other])
    assert all(order.index(whole) >= order.index(part) for part in (*one, *other))
    if one and other:
        assert whole is worst_of([worst_of(one), worst_of(other)])

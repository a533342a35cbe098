"""Health weighed from several sources: what counts at once, what must be seen again; it never flaps."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.health import (
    CONFIRM,
    RANK,
    Rules,
    Sample,
    Standing,
    recovery_time,
    temperature_sign,
    weigh,
)
from steelyard.model.health import Health, Sign, SignCode, SignSource
from steelyard.model.units import HOUR, SECOND

RULES = Rules()
EVERY = 15 * SECOND
GOOD = Sample()
SILENT = Sample((Sign(SignCode.TOOL_TIMEOUT, Health.UNKNOWN, SignSource.TOOL),), known=False)
GONE = Sample(known=True, gone=True)


def bad(code: SignCode, health: Health = Health.UNHEALTHY, source: SignSource = SignSource.TOOL) -> Sample:
    return Sample((Sign(code, health, source),))


RESET = bad(SignCode.RESET_REQUIRED)
HOT = bad(SignCode.OVERHEATED, source=SignSource.TEMPERATURE)
UNLISTED = bad(SignCode.NOT_FOUND, Health.MISSING)


def run(samples: Iterable[Sample], before: Standing | None = None, start: int = 0) -> list[Standing]:
    """The standings after each sample, one every 15 seconds."""
    found = []
    for number, sample in enumerate(samples):
        before = weigh(before, sample, start + number * EVERY, RULES)
        found.append(before)
    return found


def healths(samples: Iterable[Sample]) -> list[Health]:
    return [standing.health for standing in run(samples)]


def test_a_card_that_asks_for_a_reset_is_unhealthy_at_once() -> None:
    last = run([GOOD, RESET])[-1]
    assert (last.health, [sign.code for sign in last.signs]) == (Health.UNHEALTHY, [SignCode.RESET_REQUIRED])


def test_heat_counts_after_three_samples_in_a_row() -> None:
    assert healths([GOOD, HOT, HOT, GOOD, HOT, HOT, HOT])[-3:] == [
        Health.HEALTHY, Health.HEALTHY, Health.UNHEALTHY,
    ]  # fmt: skip


def test_samples_that_tell_nothing_do_not_break_the_row_of_bad_ones() -> None:
    assert healths([GOOD, HOT, SILENT, HOT, SILENT, HOT])[-1] is Health.UNHEALTHY


def test_a_temperature_is_weighed_by_the_declared_bounds() -> None:
    assert temperature_sign(None, RULES) == temperature_sign(89, RULES) == ()
    assert temperature_sign(90, RULES)[0].health is Health.DEGRADED
    assert temperature_sign(100, RULES)[0].health is Health.UNHEALTHY


def test_a_recovered_card_is_offered_only_after_three_good_samples_over_a_minute() -> None:
    found = healths([GOOD, RESET, GOOD, GOOD, GOOD, GOOD, GOOD])
    assert found[2:] == [Health.UNHEALTHY] * 4 + [Health.HEALTHY]  # the fifth good one is a minute later


def test_a_relapse_doubles_the_time() -> None:
    samples = [GOOD, RESET, *[GOOD] * 5, RESET, *[GOOD] * 9]
    found = run(samples)
    assert found[6].health is Health.HEALTHY
    assert [standing.health for standing in found[8:]] == [Health.UNHEALTHY] * 8 + [Health.HEALTHY]
    assert recovery_time(found[-1], RULES) == 120 * SECOND


def test_three_samples_without_an_answer_make_a_healthy_card_unknown_and_two_answers_known_again() -> None:
    found = healths([GOOD, SILENT, SILENT, SILENT, GOOD, GOOD])
    assert found == [*[Health.HEALTHY] * 3, *[Health.UNKNOWN] * 2, Health.HEALTHY]


def test_an_unhealthy_card_whose_tool_is_silent_stays_unhealthy() -> None:
    assert healths([GOOD, RESET, *[SILENT] * 50])[-1] is Health.UNHEALTHY


def test_a_card_that_one_listing_lacks_is_missing_only_when_the_next_lacks_it_too() -> None:
    assert healths([GOOD, UNLISTED, GOOD, UNLISTED, UNLISTED])[-2:] == [Health.HEALTHY, Health.MISSING]


def test_a_card_that_neither_bus_nor_tool_finds_is_missing_at_once_and_says_so() -> None:
    last = run([GOOD, GONE])[-1]
    assert (last.health, last.signs[0].code) == (Health.MISSING, SignCode.NOT_FOUND)


def test_a_missing_card_that_comes_back_bad_is_not_healthy_in_between() -> None:
    samples = [GOOD, GONE, *[RESET] * 8]
    found = healths(samples)
    assert found[-1] is Health.UNHEALTHY
    assert Health.HEALTHY not in found[1:]


def test_a_card_first_seen_with_something_against_it_waits_until_that_is_certain() -> None:
    assert healths([HOT]) == [Health.UNKNOWN]
    assert healths([HOT, HOT, HOT])[-1] is Health.UNHEALTHY
    assert healths([HOT, GOOD, GOOD])[-1] is Health.HEALTHY


def test_a_card_that_was_never_told_of_is_unknown_and_says_why() -> None:
    first = run([SILENT])[0]
    assert (first.health, first.signs[0].code) == (Health.UNKNOWN, SignCode.TOOL_TIMEOUT)


def test_signs_are_shown_worst_first_and_keep_their_words() -> None:
    warned = bad(SignCode.ROWS_PENDING, Health.DEGRADED)
    xid = Sign(SignCode.XID, Health.UNHEALTHY, SignSource.KERNEL, params={"xid": 48})
    again = Sign(SignCode.XID, Health.UNHEALTHY, SignSource.KERNEL, params={"xid": 63})
    found = run([warned, Sample((*warned.signs, xid)), Sample((*warned.signs, again))])
    assert [sign.code for sign in found[1].signs] == [SignCode.XID, SignCode.ROWS_PENDING]
    assert found[2].signs == found[1].signs


def test_the_order_of_sources_does_not_matter() -> None:
    parts = (*RESET.signs, *bad(SignCode.ECC_UNCORRECTED).signs, *bad(SignCode.XID).signs)
    assert run([GOOD, Sample(parts)])[-1] == run([GOOD, Sample(parts[::-1])])[-1]


# ---- whatever comes ----------------------------------------------------------------------------------

signs = st.builds(
    Sign,
    st.sampled_from(list(SignCode)),
    st.sampled_from([Health.DEGRADED, Health.UNHEALTHY, Health.MISSING, Health.UNKNOWN]),
    st.sampled_from(list(SignSource)),
)
samples = st.builds(
    Sample, st.lists(signs, max_size=3).map(tuple), st.booleans(), st.booleans()
) | st.sampled_from([GOOD, SILENT, GONE, RESET, HOT])
steps = st.lists(st.tuples(samples, st.integers(0, 120 * SECOND)), max_size=60)


def walk(wanted: list[tuple[Sample, int]]) -> list[tuple[int, Standing]]:
    now, before, found = 0, None, []
    for sample, later in wanted:
        now += later
        before = weigh(before, sample, now, RULES)
        found.append((now, before))
    return found


@settings(max_examples=200, deadline=None)
@given(steps)
def test_health_gets_better_no_more_often_than_the_rules_allow(wanted: list[tuple[Sample, int]]) -> None:
    found = walk(wanted)
    rises = [
        (at, before.health)
        for (_, before), (at, after) in pairwise(found)
        if RANK[after.health] < RANK[before.health]
    ]
    assert len(rises) * RULES.known_samples <= len(found)
    back = [at for at, health in rises if health in (Health.UNHEALTHY, Health.MISSING)]
    assert all(later - earlier >= RULES.recover_time for earlier, later in pairwise(back))


@settings(max_examples=200, deadline=None)
@given(steps)
def test_changes_are_bounded_by_the_number_of_samples(wanted: list[tuple[Sample, int]]) -> None:
    found = walk(wanted)
    changes = sum(a.health is not b.health for (_, a), (_, b) in pairwise(found))
    rises = len(found) // RULES.known_samples
    assert changes <= len(RANK) * (rises + 1)


@settings(max_examples=100, deadline=None)
@given(steps, st.integers(1, 40))
def test_silence_never_makes_a_device_unhealthy(wanted: list[tuple[Sample, int]], more: int) -> None:
    found = walk(wanted)
    before = found[-1][1] if found else None
    start = Health.UNKNOWN if before is None else before.health
    now = found[-1][0] if found else 0
    for number in range(more):
        before = weigh(before, SILENT, now + number * EVERY, RULES)
        assert before.health in (start, Health.UNKNOWN)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_nothing_that_is_not_healthy_is_without_a_sign(wanted: list[tuple[Sample, int]]) -> None:
    for _, standing in walk(wanted):
        if standing.health in (Health.UNHEALTHY, Health.DEGRADED, Health.MISSING):
            assert standing.signs
        if standing.health is Health.HEALTHY:
            assert not standing.signs


@settings(max_examples=100, deadline=None)
@given(st.lists(samples, max_size=30), st.sampled_from(sorted(CONFIRM)))
def test_one_sample_alone_with_what_must_be_confirmed_changes_nothing(
    before: list[Sample], code: SignCode
) -> None:
    standing = run([*before, GOOD])[-1]
    after = weigh(standing, bad(code), HOUR, RULES)
    assert RANK[after.health] <= RANK[standing.health]

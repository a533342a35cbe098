"""S-21: what is evicted is bounded by what was asked for, and reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.reasons import ReasonCode
from steelyard.scheduling import Decisions, Snapshot, decide
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    group,
    item,
    node,
    policy,
    request,
    shape,
    snapshot,
    started,
)

SECOND = 1_000_000


def arrives(base: Snapshot, gpus: int, count: int) -> Decisions:
    """A high priority of `count` members with so many devices each."""
    wide = shape("wide", request(gpu=gpus * 1000), count=count, priority=9)
    base = replace(base, pending=(group(wide, item(5000)),))
    decisions = decide(base, policy(max_victims=512, max_evicted=1_000_000), NOW)
    check_answer(base, decisions)
    return decisions


def test_forty_eight_devices_evict_forty_eight() -> None:
    """Where another scheduler evicted 376: sixty-four nodes of eight, full of single devices."""
    base = snapshot([node(n, gpus=8) for n in range(1, 65)])
    base = started(base, group(shape("one", request(gpu=1000)), *(item(n) for n in range(1, 513))))
    stats = arrives(base, gpus=8, count=6).stats
    assert (stats.evicted, stats.requested) == (48_000, 48_000)


def test_no_large_gang_goes_for_a_few_devices_where_small_ones_do() -> None:
    base = snapshot([node(n, gpus=8) for n in range(1, 9)])
    base = started(base, group(shape("one", request(gpu=1000)), *(item(n) for n in range(1, 33))))
    gang = shape("gang", request(gpu=8000), count=4)
    base = started(base, group(gang, item(900)), at=NOW - SECOND)  # newest: it would go first in order
    stats = arrives(base, gpus=8, count=2).stats
    assert (stats.evicted, stats.requested) == (16_000, 16_000)


def test_a_gang_goes_where_nothing_else_would_do_and_that_is_seen() -> None:
    base = snapshot([node(n, gpus=8) for n in range(1, 5)])
    base = started(base, group(shape("gang", request(gpu=8000), count=4), item(1)))
    stats = arrives(base, gpus=1, count=1).stats
    assert (stats.evicted, stats.requested) == (32_000, 1000)


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([1, 1, 2, 4]), min_size=1, max_size=12),
    st.sampled_from([(1, 1), (4, 1), (4, 2), (2, 3)]),
)
def test_the_excess_is_less_than_one_victim_for_each_member(
    sizes: list[int], wanted: tuple[int, int]
) -> None:
    """None of the victims can be spared; so each node gives up less than a member and its largest victim."""
    base = snapshot([node(n, gpus=4) for n in range(1, 4)])
    for number, size in enumerate(sizes, start=1):
        job = shape(f"s{number}", request(gpu=size * 1000))
        base = started(base, group(job, item(number)), at=NOW - (100 - number) * SECOND)
    stats = arrives(base, *wanted).stats
    held = [sum(item.quantity for item in r.charges if item.subject == "gpu") for r in base.running.values()]
    largest = max([*held, *(1000 * size for size in sizes)])
    assert stats.evicted <= stats.requested + wanted[1] * max(0, largest - 1000)


@pytest.mark.parametrize("limit", [7, 8])
def test_more_victims_than_the_policy_allows_evict_nobody(limit: int) -> None:
    base = snapshot([node(1, gpus=8)])
    base = started(base, group(shape("one", request(gpu=1000)), *(item(n) for n in range(1, 9))))
    wide = shape("wide", request(gpu=8000), priority=9)
    base = replace(base, pending=(group(wide, item(5000)),))
    assert len(decide(base, policy(max_victims=limit), NOW).evictions) == (8 if limit == 8 else 0)


# --- the declared bound ------------------------------------------------------------------------------------
def wants(gpus: int, gang: int, **bounds: int) -> Decisions:
    """Four nodes of eight held by gangs of `gang` devices, and a high priority that asks for `gpus`."""
    base = snapshot([node(n, gpus=8) for n in range(1, 5)])
    whole, rest = divmod(gang, 8)
    held = shape("gang", request(gpu=gang * 1000 if rest else 8000), count=max(1, whole))
    base = started(base, group(held, *(item(n) for n in range(1, 1 + 32 // gang))))
    base = replace(base, pending=(group(shape("wide", request(gpu=gpus * 1000), priority=9), item(500)),))
    decisions = decide(base, policy(**bounds), NOW)
    check_answer(base, decisions)
    return decisions


@pytest.mark.parametrize(
    ("gpus", "gang", "stops"), [(1, 8, True), (1, 16, False), (4, 16, True), (8, 32, True), (7, 32, False)]
)
def test_no_more_than_four_times_what_is_asked_for_or_eight_devices(
    gpus: int, gang: int, stops: bool
) -> None:
    decisions = wants(gpus, gang)
    assert bool(decisions.evictions) == stops
    told = () if stops else decisions.reasons["wide"].reasons
    found = [reason for reason in told if reason.code == ReasonCode.EVICTS_TOO_MUCH]
    assert len(found) == (0 if stops else 1)
    for reason in found:
        assert (reason.requested, reason.params["evicted"]) == (gpus * 1000, gang * 1000)
        assert reason.params["most"] == max(8000, 4 * gpus * 1000)


def test_the_bound_is_the_policys() -> None:
    assert wants(2, 32, max_evicted=16_000).evictions
    assert not wants(4, 32, max_evicted=7_999).evictions


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.sampled_from([1, 2, 4, 8, 16]), min_size=1, max_size=8),
    st.sampled_from([(1, 1), (2, 2), (8, 2)]),
    st.sampled_from([1000, 2000, 4000]),
)
def test_in_any_cluster_what_is_stopped_is_within_the_bound(
    sizes: list[int], wanted: tuple[int, int], times: int
) -> None:
    base = snapshot([node(n, gpus=8) for n in range(1, 5)])
    for number, size in enumerate(sizes, start=1):
        job = shape(f"s{number}", request(gpu=min(size, 8) * 1000), count=max(1, size // 8))
        base = started(base, group(job, item(number)), at=NOW - (100 - number) * SECOND)
    wide = shape("wide", request(gpu=wanted[0] * 1000), count=wanted[1], priority=9)
    base = replace(base, pending=(group(wide, item(5000)),))
    decisions = decide(base, policy(max_evicted=times), NOW)
    check_answer(base, decisions)
    assert decisions.stats.evicted <= max(8000, decisions.stats.requested * times // 1000)

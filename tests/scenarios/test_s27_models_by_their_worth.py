"""S-27: two models have quotas of their own, and count by their worth in a common one."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.policy import ORG_TREE
from steelyard.scheduling import Snapshot, decide, hard_limit
from tests.unit.scheduling.build import (
    NOW,
    check_answer,
    group,
    item,
    node,
    nominal,
    org_tree,
    policy,
    queue_tree,
    request,
    shape,
    snapshot,
)

TABLE = policy(conversions={"h100": 1000, "t4": 250})


def world(hard: int, h100: int = 8, t4: int = 8) -> Snapshot:
    """Eight of each; the queue owns some of each, the project has a limit in devices of the usual worth."""
    fast = shape("fast", request(gpu=1000, flavors=("h100",)), priority=1)
    slow = shape("slow", request(gpu=1000, flavors=("t4",)))
    limits = {**nominal("q", "flavor/h100", h100 * 1000, 0), **nominal("q", "flavor/t4", t4 * 1000, 0)}
    return snapshot(
        [node(1, gpus=8, flavor="h100"), node(2, gpus=8, flavor="t4")],
        *(group(of, *(item(100 * n + m) for m in range(8))) for n, of in enumerate((fast, slow), 1)),
        queues=queue_tree(limits),
        organisation=org_tree({("p", "gpu/normalised"): hard_limit("p", "gpu/normalised", hard)}),
    )


def started(base: Snapshot) -> Counter[str]:
    decisions = decide(base, TABLE, NOW)
    check_answer(base, decisions)
    return Counter(placement.shape_key for placement in decisions.placements)


@pytest.mark.requirement("B2", "J6")
def test_each_model_has_its_own_quota_and_both_share_one_by_worth() -> None:
    assert started(world(4 * 10**6, h100=3)) == {"fast": 3, "slow": 4}
    assert started(world(4 * 10**6, h100=0)) == {"slow": 8}
    assert started(world(2 * 10**6)) == {"fast": 2}


@given(st.integers(0, 10 * 10**6), st.integers(0, 8), st.integers(0, 8))
def test_no_mix_of_models_is_worth_more_than_the_limit(hard: int, h100: int, t4: int) -> None:
    base = world(hard, h100, t4)
    found = started(base)
    assert found["fast"] <= h100
    assert found["slow"] <= t4
    worth = found["fast"] * 10**6 + found["slow"] * 250_000
    assert worth <= hard
    after = base.apply(decide(base, TABLE, NOW))
    assert after.usage[ORG_TREE].get(("p", "gpu/normalised"), 0) == worth
    if found["slow"] < min(t4, 8):
        assert worth + 250_000 > hard

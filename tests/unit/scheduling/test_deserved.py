"""What queues deserve: what they own, and their weighted part of what nobody else of the cohort needs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import QUEUE_TREE, Policy, QueueRules, TreeNode
from steelyard.scheduling import QuotaTree
from steelyard.scheduling.deserved import deserved, fairness
from steelyard.scheduling.rules import Rules
from tests.unit.scheduling.build import nominal

PARENTS = {"root": None, "left": "root", "a": "left", "b": "left", "c": "root"}
QUEUES = ("a", "b", "c")
NODES = {
    name: TreeNode(QUEUE_TREE, name, "queue" if name in QUEUES else "cohort", parent)
    for name, parent in PARENTS.items()
}


def made(limits: dict, wanted: dict[str, int], **weights: int) -> dict[str, int]:
    """Of GPUs."""
    tree = QuotaTree(NODES, limits)
    policy = Policy(1, queues={name: QueueRules(weight=weight) for name, weight in weights.items()})
    return deserved(tree, Rules(policy, tree), "gpu", wanted)


ENDLESS = dict.fromkeys(QUEUES, 10**9)


def test_what_nobody_owns_goes_by_weight_at_every_level() -> None:
    found = made(nominal("root", "gpu", 12_000), ENDLESS, left=1000, c=2000, a=3000)
    assert found == {"root": 12_000, "left": 4000, "c": 8000, "a": 3000, "b": 1000}


def test_what_is_owned_comes_first_and_is_lent_where_it_is_not_wanted() -> None:
    limits = nominal("a", "gpu", 6000) | nominal("c", "gpu", 6000)
    assert made(limits, ENDLESS)["a"] == 6000
    assert made(limits, {"a": 1000, "b": 10**9, "c": 10**9}) == {
        "root": 12_000, "left": 6000, "a": 1000, "b": 5000, "c": 6000,
    }  # fmt: skip


def test_what_one_does_not_want_goes_to_the_others() -> None:
    found = made(nominal("root", "gpu", 9000), {"a": 1000, "b": 10**9, "c": 2000})
    assert (found["a"], found["b"], found["c"]) == (1000, 6000, 2000)


def test_without_a_weight_a_queue_gets_what_is_left() -> None:
    assert made(nominal("root", "gpu", 9000), {"a": 0, "b": 4000, "c": 10**9}, c=0)["c"] == 5000


def test_nobody_deserves_more_than_it_may_borrow() -> None:
    found = made(nominal("root", "gpu", 9000) | nominal("c", "gpu", 0, borrowing=1000), ENDLESS)
    assert found["c"] == 1000
    assert found["left"] == 8000


few = st.integers(0, 9).map(lambda units: units * 1000)


@settings(deadline=None)
@given(st.data())
def test_no_more_is_given_than_there_is_and_nothing_is_left_while_it_is_wanted(data: st.DataObject) -> None:
    limits = {}
    for name in PARENTS:
        limits |= nominal(name, "gpu", data.draw(few), None, data.draw(st.none() | few))
    wanted = {name: data.draw(few) for name in QUEUES}
    weights = {name: data.draw(st.sampled_from([0, 1, 500, 1000, 3000])) for name in PARENTS}
    found = made(limits, wanted, **weights)
    whole = QuotaTree(NODES, limits)
    total = whole.subtree("root", "gpu")
    kept = {name: whole.local(name, "gpu") for name in PARENTS}
    given_ = sum(found[name] for name in QUEUES)
    assert all(0 <= found[name] <= wanted[name] for name in QUEUES)
    assert given_ <= total + sum(kept[name] for name in ("a", "b", "c", "left"))
    for name in QUEUES:  # each at least what it owns and wants
        assert found[name] >= min(wanted[name], whole.subtree(name, "gpu"))
    if not any(kept.values()) and given_ < total:
        assert all(found[name] == wanted[name] for name in QUEUES)


@pytest.mark.requirement("E3")
def test_fairness_is_what_is_used_in_thousandths_of_what_is_deserved() -> None:
    assert fairness(3000, 4000) == 750
    assert fairness(0, 0) is None
    assert fairness(500, 0) is None

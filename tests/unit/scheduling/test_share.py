"""Shares above quota: Kueue's formula, in integers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.model.policy import QUEUE_TREE, Fairness, Policy, QueueRules, TreeNode
from steelyard.model.units import HOUR
from steelyard.scheduling import FlavorView, QuotaTree, potential, total_usage
from steelyard.scheduling.history import Past, history_of
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.share import NONE, WHOLE, Shares, shown
from tests.unit.scheduling.build import CPU, GPU, nominal, queue_tree

FLAVORS = {"a100": FlavorView("a100", GPU, "c"), "h100": FlavorView("h100", GPU, "c")}


def shares(tree: QuotaTree, past: Past | None = None, **weights: int) -> Shares:
    """Of a tree whose queues have these weights."""
    policy = Policy(1, queues={name: QueueRules(weight=weight) for name, weight in weights.items()})
    return Shares(tree, Rules(policy, tree), FLAVORS, past)


def two(gpu: int = 4000, **more: int) -> QuotaTree:
    """Two queues in a cohort."""
    return queue_tree(nominal("q", "gpu", gpu) | nominal("r", "gpu", 12_000), ("q", "r"))


def test_what_is_above_quota_is_taken_in_parts_of_what_the_parent_could_ever_have() -> None:
    usage = {("q", "gpu"): 6000}
    assert shown(shares(two()).share(usage, "q")) == 125_000  # 2 of 16 devices


def test_within_quota_the_share_is_nothing_and_so_is_the_roots() -> None:
    usage = {("q", "gpu"): 4000, ("cohort", "gpu"): 99_000}
    assert shares(two()).share(usage, "q") == NONE
    assert shares(two()).share(usage, "cohort") == NONE


def test_what_is_asked_for_counts() -> None:
    assert shown(shares(two()).share({("q", "gpu"): 4000}, "q", {"gpu": 4000})) == 250_000


def test_a_weight_divides_the_share_and_weight_zero_makes_it_infinite() -> None:
    usage, tree = {("q", "gpu"): 8000, ("r", "gpu"): 13_000}, two()
    assert shown(shares(tree, q=2000).share(usage, "q")) == 125_000
    without = shares(tree, q=0, r=0)
    assert shown(without.share(usage, "q")) is None
    assert without.share(usage, "q") > without.share(usage, "r") > shares(tree).share(usage, "q")


def test_idle_quota_of_one_flavor_does_not_offset_what_is_borrowed_of_another() -> None:
    limits = nominal("q", "flavor/a100", 4000) | nominal("q", "flavor/h100", 4000)
    tree = queue_tree(limits | nominal("r", "flavor/a100", 2000), ("q", "r"))
    assert shown(shares(tree).share({("q", "flavor/a100"): 5000}, "q")) == 100_000


def test_on_several_flavors_a_request_counts_where_it_adds_least() -> None:
    tree = queue_tree(nominal("q", "flavor/a100", 4000) | nominal("q", "flavor/h100", 4000))
    usage = {("q", "flavor/a100"): 4000}
    found = shares(tree).share(usage, "q", {"flavor/a100": 2000, "flavor/h100": 2000})
    assert found == NONE
    assert not shares(tree).borrows(usage, "q", {"flavor/a100": 2000, "flavor/h100": 2000})
    assert shares(tree).borrows(usage, "q", {"flavor/a100": 2000})


def test_where_the_past_counts_the_share_is_that_of_the_next_sum() -> None:
    tree = two()
    history = history_of(tree, 0, {("q", "p", "", "gpu"): 8000 * 10**6})
    past = Past(history, Fairness(HOUR, HOUR // 2), tree)
    now, before, kept = 2000, 4000, 0.5**0.5  # above quota, of 16 devices
    expected = (now * (1 - kept) + before * kept) / 16_000
    found = shown(shares(tree, past).share({("q", "gpu"): 6000}, "q"))
    assert found is not None
    assert abs(found - expected * 10**6) <= 1


few = st.integers(0, 9).map(lambda units: units * 1000)


@settings(deadline=None)
@given(st.data())
def test_the_share_is_what_the_formula_says(data: st.DataObject) -> None:
    subjects = ("gpu", "cpu", "flavor/a100", "flavor/h100")
    nodes = {
        "root": TreeNode(QUEUE_TREE, "root", "cohort", None),
        "half": TreeNode(QUEUE_TREE, "half", "cohort", "root"),
        **{name: TreeNode(QUEUE_TREE, name, "queue", "half") for name in ("q", "r")},
    }
    limits = {}
    for name in nodes:
        for subject in subjects:
            if data.draw(st.booleans()):
                limits |= nominal(name, subject, data.draw(few), None, data.draw(st.none() | few))
    tree = QuotaTree(nodes, limits)
    own = [(name, subject, data.draw(few)) for name in ("q", "r") for subject in subjects]
    usage, weight = total_usage(tree, own), data.draw(st.integers(1, 9)) * 500
    made = shares(tree, half=weight, q=weight)
    for node, parent in (("q", "half"), ("half", "root")):
        expected = 0
        for group in (("gpu",), ("cpu",), ("flavor/a100", "flavor/h100")):
            governed = [subject for subject in group if tree.governs(subject)]
            whole = sum(potential(tree, parent, subject) for subject in governed)
            above = sum(max(0, usage.get((node, s), 0) - tree.subtree(node, s)) for s in governed)
            if whole > 0:
                expected = max(expected, above * WHOLE // whole)
        assert made.share(usage, node) == ((0, expected * 1000 // weight) if expected else NONE)


@settings(deadline=None)
@given(few, few, few)
def test_a_share_never_falls_when_more_is_asked_for(used: int, asked: int, more: int) -> None:
    made, usage = shares(two()), {("q", "gpu"): used, ("q", "cpu"): used}
    assert made.share(usage, "q", {"gpu": asked}) <= made.share(usage, "q", {"gpu": asked + more})


def test_a_class_without_any_limit_is_nobodys() -> None:
    assert shares(two()).share({("q", CPU.value): 10**6}, "q") == NONE

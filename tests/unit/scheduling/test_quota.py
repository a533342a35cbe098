"""The tree arithmetic against a naive reference, published examples, and conservation."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.model.errors import InvalidError
from steelyard.model.policy import ORG_TREE, UNBOUNDED, Limit, OnExceed, TreeNode
from steelyard.scheduling import (
    QuotaTree,
    available,
    charge,
    fits,
    hard_limit,
    potential,
    shortfalls,
    shown,
    total_usage,
    with_unbounded_root,
)

GPU = "gpu"


class Reference:
    """The definitions of design/queueing.md 1.1 written down one by one, slow and recursive."""

    def __init__(self, nodes: Mapping[str, TreeNode], limits: Mapping[tuple[str, str], Limit]) -> None:
        self.nodes, self.limits = nodes, limits

    def limit(self, name: str) -> Limit:
        return self.limits.get((name, GPU), Limit("t", name, GPU, 0))

    def children(self, name: str) -> list[str]:
        return [child for child, node in self.nodes.items() if node.parent == name]

    def subtree(self, name: str) -> int:
        below = sum(self.subtree(child) - self.local(child) for child in self.children(name))
        return self.limit(name).nominal + below

    def local(self, name: str) -> int:
        lending = self.limit(name).lending_limit
        return 0 if lending is None else max(0, self.subtree(name) - lending)

    def usage(self, name: str, own: Mapping[str, int]) -> int:
        flows = sum(max(0, self.usage(child, own) - self.local(child)) for child in self.children(name))
        return own.get(name, 0) + flows

    def available(self, name: str, own: Mapping[str, int]) -> int:
        parent, used = self.nodes[name].parent, self.usage(name, own)
        if parent is None:
            return self.subtree(name) - used
        local, borrowing = self.local(name), self.limit(name).borrowing_limit
        above = self.available(parent, own)
        if borrowing is not None:
            above = min(above, (self.subtree(name) - local) - max(0, used - local) + borrowing)
        return max(0, local - used) + above


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[str, TreeNode], dict[tuple[str, str], Limit]]:
    """Up to eight nodes in one or more trees, with any mix of limits."""
    names = [f"n{index}" for index in range(draw(st.integers(1, 8)))]
    nodes = {}
    for index, name in enumerate(names):
        parent = draw(st.sampled_from([None, *names[:index]])) if index else None
        nodes[name] = TreeNode("t", name, "queue", parent)
    some = st.none() | st.integers(0, 12)
    limits = {}
    for name in draw(st.lists(st.sampled_from(names), min_size=1, unique=True)):
        limits[name, GPU] = Limit("t", name, GPU, draw(st.integers(0, 10)), draw(some), draw(some))
    return nodes, limits


@st.composite
def charged_trees(draw: st.DrawFn):
    """A tree and what is charged to its nodes, above their limits, too."""
    nodes, limits = draw(trees())
    own = draw(st.dictionaries(st.sampled_from(sorted(nodes)), st.integers(0, 15)))
    return nodes, limits, own


@given(charged_trees())
def test_subtree_local_usage_and_available_follow_their_definitions(case) -> None:
    nodes, limits, own = case
    tree, reference = QuotaTree(nodes, limits), Reference(nodes, limits)
    usage = total_usage(tree, [(name, GPU, quantity) for name, quantity in own.items()])
    for name in nodes:
        assert tree.subtree(name, GPU) == reference.subtree(name)
        assert tree.local(name, GPU) == reference.local(name)
        assert usage.get((name, GPU), 0) == reference.usage(name, own)
        assert available(tree, usage, name, GPU) == reference.available(name, own)
        assert potential(tree, name, GPU) == reference.available(name, {})


@given(charged_trees(), st.integers(0, 20))
def test_a_shortfall_is_told_exactly_when_the_request_is_above_what_is_available(case, quantity) -> None:
    nodes, limits, own = case
    tree = QuotaTree(nodes, limits)
    usage = total_usage(tree, [(name, GPU, amount) for name, amount in own.items()])
    for name in nodes:
        found = shortfalls(tree, usage, name, GPU, quantity)
        assert bool(found) == (quantity > available(tree, usage, name, GPU))
        assert fits(tree, usage, name, {GPU: quantity}) == (not found)
        if found:
            worst = quantity - available(tree, usage, name, GPU)
            assert max(short.short_by for short in found) == worst


@given(trees(), st.data())
def test_charges_and_releases_in_any_order_leave_what_the_live_ones_sum_to(tree_case, data) -> None:
    nodes, limits = tree_case
    tree = QuotaTree(nodes, limits)
    usage: dict[tuple[str, str], int] = {}
    live: list[tuple[str, int]] = []
    for _ in range(data.draw(st.integers(1, 25))):
        if live and data.draw(st.booleans()):
            name, quantity = live.pop(data.draw(st.integers(0, len(live) - 1)))
            sign = -1
        else:
            name = data.draw(st.sampled_from(sorted(nodes)))
            quantity, sign = data.draw(st.integers(0, 9)), 1
            live.append((name, quantity))
        for node, subject, delta in charge(tree, usage, name, GPU, sign * quantity):
            usage[node, subject] = usage.get((node, subject), 0) + delta
        fresh = total_usage(tree, [(owner, GPU, amount) for owner, amount in live])
        assert {k: v for k, v in usage.items() if v} == {k: v for k, v in fresh.items() if v}


@given(charged_trees(), st.integers(1, 20))
def test_charging_what_is_available_takes_no_node_below_its_limits(case, quantity) -> None:
    nodes, limits, own = case
    tree = QuotaTree(nodes, limits)
    usage = total_usage(tree, [(name, GPU, amount) for name, amount in own.items()])
    for name in sorted(nodes):
        if quantity <= available(tree, usage, name, GPU):
            sound = [other for other in nodes if available(tree, usage, other, GPU) >= 0]
            for node, subject, delta in charge(tree, usage, name, GPU, quantity):
                usage[node, subject] = usage.get((node, subject), 0) + delta
            assert all(available(tree, usage, other, GPU) >= 0 for other in sound)


def two_teams(**team_b: int | None) -> QuotaTree:
    """Kueue's published cohort: team-a owns 9 CPUs, team-b 12."""
    nodes = {
        "team-ab": TreeNode("t", "team-ab", "cohort", None),
        "team-a": TreeNode("t", "team-a", "queue", "team-ab"),
        "team-b": TreeNode("t", "team-b", "queue", "team-ab"),
    }
    borrowing = team_b.pop("a_borrows", None)
    limits = {
        ("team-a", "cpu"): Limit("t", "team-a", "cpu", 9, borrowing),
        ("team-b", "cpu"): Limit("t", "team-b", "cpu", 12, None, team_b.get("lends")),
    }
    return QuotaTree(nodes, limits)


@pytest.mark.parametrize(
    ("tree", "most"),
    [(two_teams(), 9 + 12), (two_teams(a_borrows=1), 9 + 1), (two_teams(lends=1), 9 + 1)],
    ids=["borrows all", "borrowing limit 1", "lending limit 1"],
)
def test_kueues_published_cohort(tree: QuotaTree, most: int) -> None:
    assert potential(tree, "team-a", "cpu") == most
    assert available(tree, {}, "team-a", "cpu") == most


def test_what_is_kept_back_stays_usable_while_another_queue_borrows_all_it_may() -> None:
    tree = two_teams(lends=1)
    usage = total_usage(tree, [("team-a", "cpu", 10)])
    assert available(tree, usage, "team-a", "cpu") == 0
    assert available(tree, usage, "team-b", "cpu") == 11


def test_available_is_negative_after_a_cut_below_what_runs() -> None:
    tree = two_teams()
    usage = total_usage(tree, [("team-a", "cpu", 20)])
    cut = tree.with_limit(Limit("t", "team-b", "cpu", 2))
    assert available(cut, usage, "team-a", "cpu") == 11 - 20


def test_a_cohorts_own_nominal_is_shared_beside_its_childrens() -> None:
    tree = two_teams().with_limit(Limit("t", "team-ab", "cpu", 5))
    assert potential(tree, "team-a", "cpu") == 26


def test_a_queue_without_a_limit_in_a_governed_subject_owns_nothing_but_may_borrow() -> None:
    nodes = {**two_teams().nodes, "team-c": TreeNode("t", "team-c", "queue", "team-ab")}
    tree = QuotaTree(nodes, two_teams().limits)
    assert tree.subtree("team-c", "cpu") == 0
    assert potential(tree, "team-c", "cpu") == 21


def test_an_ungoverned_subject_is_unlimited_and_charged_at_every_node() -> None:
    tree = two_teams()
    assert available(tree, {}, "team-a", "npu") == UNBOUNDED
    assert shortfalls(tree, {}, "team-a", "npu", 10**9) == []
    assert charge(tree, {}, "team-a", "npu", 3) == [("team-a", "npu", 3), ("team-ab", "npu", 3)]


def test_a_hard_limit_holds_below_an_unbounded_root_and_is_never_shown_as_a_number_of_the_root() -> None:
    nodes = {
        "team": TreeNode(ORG_TREE, "team", "team", None),
        "p": TreeNode(ORG_TREE, "p", "project", "team"),
    }
    limits = {("p", GPU): hard_limit("p", GPU, 4000), ("team", GPU): hard_limit("team", GPU, 6000)}
    tree = with_unbounded_root(ORG_TREE, nodes, limits, "all")
    assert limits["p", GPU].on_exceed is OnExceed.REFUSE
    assert potential(tree, "p", GPU) == 4000
    usage = total_usage(tree, [("p", GPU, 3000)])
    assert available(tree, usage, "p", GPU) == 1000
    assert available(tree, usage, "team", GPU) == 3000
    assert [short.node for short in shortfalls(tree, usage, "p", GPU, 2000)] == ["p"]
    assert shown(available(tree, usage, "all", GPU)) is None
    assert shown(4000) == 4000
    assert abs(available(tree, usage, "all", GPU)) < 2**63


def test_unbounded_quantities_never_pass_64_bits_however_many_there_are() -> None:
    nodes = {"root": TreeNode("t", "root", "cohort", None)}
    nodes |= {f"q{index}": TreeNode("t", f"q{index}", "queue", "root") for index in range(5)}
    limits = {(name, GPU): Limit("t", name, GPU, UNBOUNDED, UNBOUNDED, 7) for name in nodes}
    tree = QuotaTree(nodes, limits)
    for name in nodes:
        assert tree.subtree(name, GPU) <= UNBOUNDED
        assert available(tree, {}, name, GPU) <= UNBOUNDED
        assert shown(potential(tree, name, GPU)) is None


def test_a_missing_parent_and_a_cycle_are_refused() -> None:
    with pytest.raises(InvalidError) as missing:
        QuotaTree({"a": TreeNode("t", "a", "queue", "gone")}, {})
    assert missing.value.code == "tree-parent-missing"
    with pytest.raises(InvalidError) as cycle:
        QuotaTree({"a": TreeNode("t", "a", "queue", "b"), "b": TreeNode("t", "b", "queue", "a")}, {})
    assert cycle.value.code == "tree-cycle"

"""A naive second book beside the scheduling core: quota by its definition, devices by plain addition.

Slow, recursive and from nothing each time, so that it shares no mistake with what it checks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from steelyard.model.workloads import MemberPlan
from steelyard.scheduling import Charge, QuotaTree

Own = Mapping[tuple[str, str], int]  # (node, subject) → what is charged to the node itself


class NaiveTree:
    """One tree's subtree, local part, ceiling and usage, as design/queueing.md 1.1 defines them."""

    def __init__(self, tree: QuotaTree) -> None:
        self.tree = tree
        self._children: dict[str, list[str]] = {}
        for name, node in tree.nodes.items():
            if node.parent is not None:
                self._children.setdefault(node.parent, []).append(name)
        self._subtrees: dict[tuple[str, str], int] = {}

    def subtree(self, name: str, subject: str) -> int:
        """What it owns with all below it, less what they keep back."""
        known = self._subtrees.get((name, subject))
        if known is None:
            limit = self.tree.limits.get((name, subject))
            below = self._children.get(name, [])
            lent = sum(self.subtree(child, subject) - self.local(child, subject) for child in below)
            known = self._subtrees[name, subject] = (limit.nominal if limit else 0) + lent
        return known

    def local(self, name: str, subject: str) -> int:
        """What never leaves it."""
        limit = self.tree.limits.get((name, subject))
        if limit is None or limit.lending_limit is None:
            return 0
        return max(0, self.subtree(name, subject) - limit.lending_limit)

    def ceiling(self, name: str, subject: str) -> int | None:
        """The most that may stand as its usage; None: no bound of its own."""
        limit = self.tree.limits.get((name, subject))
        if self.tree.nodes[name].parent is None:
            return self.subtree(name, subject)
        if limit is None or limit.borrowing_limit is None:
            return None
        return self.subtree(name, subject) + limit.borrowing_limit

    def usage(self, name: str, subject: str, own: Own) -> int:
        """What is charged to it, and what flows up from below."""
        flows = 0
        for child in self._children.get(name, []):
            flows += max(0, self.usage(child, subject, own) - self.local(child, subject))
        return own.get((name, subject), 0) + flows

    def path(self, name: str) -> list[str]:
        """From the node up."""
        parent = self.tree.nodes[name].parent
        return [name, *(self.path(parent) if parent is not None else [])]

    def fits(self, own: Own, charges: Iterable[tuple[str, str, int]]) -> bool:
        """True when no node of the paths stands above its ceiling with these charged, too."""
        wanted = [(node, subject, amount) for node, subject, amount in charges if node in self.tree.nodes]
        after = Counter(own)
        for node, subject, amount in wanted:
            after[node, subject] += amount
        for node, subject, _ in wanted:
            if subject not in self.tree.subjects:
                continue
            for above in self.path(node):
                ceiling = self.ceiling(above, subject)
                if ceiling is not None and self.usage(above, subject, after) > ceiling:
                    return False
        return True

    def all_usage(self, own: Own) -> dict[tuple[str, str], int]:
        """The usage of every node and subject that is not 0."""
        subjects = {subject for _, subject in own}
        keys = [(name, subject) for name in self.tree.nodes for subject in subjects]
        used = {key: self.usage(*key, own) for key in keys}
        return {key: amount for key, amount in used.items() if amount}


def own_charges(tree: str, charged: Iterable[Charge]) -> dict[tuple[str, str], int]:
    """What is charged to each node of one tree itself."""
    own: Counter[tuple[str, str]] = Counter()
    for item in charged:
        if item.tree == tree:
            own[item.node, item.subject] += item.quantity
    return dict(own)


def naive_charges(
    nodes: Iterable[tuple[str, str]], members: Iterable[MemberPlan]
) -> dict[tuple[str, str, str], int]:
    """(tree, node, subject) → quantity that follows from where the members are."""
    charged: Counter[tuple[str, str, str]] = Counter()
    where = list(nodes)
    for member in members:
        for allocation in member.allocations:
            for tree, node in where:
                charged[tree, node, allocation.device_class.value] += allocation.quantity
                charged[tree, node, f"flavor/{allocation.flavor}"] += allocation.quantity
    return dict(charged)


def by_place(members: Iterable[MemberPlan]) -> Counter[tuple[int, int]]:
    """(node, device) → quantity."""
    held: Counter[tuple[int, int]] = Counter()
    for member in members:
        for allocation in member.allocations:
            held[member.node_id, allocation.device_id or 0] += allocation.quantity
    return held

"""What queues deserve of a class or flavor, beside which what they use tells how fair things are.

From the root down: every child gets what it owns as far as it wants it; what is left goes by weight to those
that want more, in rounds, until nobody does (weighted max-min fairness, after KAI-Scheduler's division of
resources, design/queueing.md 1.2). Weight 0 gets what then is left. Nobody gets more than it may borrow.
"""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.scheduling.quota import QuotaTree, potential
from steelyard.scheduling.rules import Rules


def deserved(tree: QuotaTree, rules: Rules, subject: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """By node. `wanted`: what each queue uses and waits for, in the class's unit."""
    total = _wanted(tree, subject, wanted)
    found: dict[str, int] = {}
    for name in sorted(tree.nodes):
        if tree.nodes[name].parent is None:
            found[name] = min(tree.subtree(name, subject), total[name])
            _divide(tree, rules, subject, total, name, found)
    return found


def fairness(used: int, deserved: int) -> int | None:
    """What is used in thousandths of what is deserved; None where nothing is."""
    return used * 1000 // deserved if deserved else None


def _wanted(tree: QuotaTree, subject: str, wanted: Mapping[str, int]) -> dict[str, int]:
    """Of each node, as far as it could ever have it."""
    total: dict[str, int] = {}
    for name in sorted(tree.nodes, key=lambda name: -len(tree.path(name))):
        below = sum(total[child] for child in tree.children(name))
        total[name] = min(wanted.get(name, 0) + below, max(0, potential(tree, name, subject)))
    return total


def _divide(
    tree: QuotaTree, rules: Rules, subject: str, wanted: Mapping[str, int], parent: str, found: dict[str, int]
) -> None:
    children = tree.children(parent)
    for child in children:
        found[child] = min(tree.subtree(child, subject), wanted[child])
    kept = sum(min(tree.local(child, subject), found[child]) for child in children)
    left = max(0, found[parent] + kept - sum(found[child] for child in children))
    weights = {child: rules.of(child).weight for child in children}
    for hungry in ([c for c in children if weights[c]], [c for c in children if not weights[c]]):
        left = _fill(hungry, weights, wanted, found, left)
    for child in children:
        _divide(tree, rules, subject, wanted, child, found)


def _fill(
    hungry: list[str], weights: Mapping[str, int], wanted: Mapping[str, int], found: dict[str, int], left: int
) -> int:
    """Gives what is left by weight; what then is still left."""
    while left > 0:
        hungry = [child for child in hungry if found[child] < wanted[child]]
        if not hungry:
            break
        whole = sum(weights[child] or 1 for child in hungry)
        parts = {child: left * (weights[child] or 1) // whole for child in hungry}
        if not any(parts.values()):
            parts = {child: 1 for child in hungry[:left]}
        for child, part in parts.items():
            more = min(part, wanted[child] - found[child])
            found[child] += more
            left -= more
    return left

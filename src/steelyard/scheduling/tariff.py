"""Charges made ready to be checked and added: along which path of which tree, where some limit is on them.

What an attempt is charged is one tuple that is passed along from the decision to its end, so it is made ready
once and known again by its identity. This is a matter of speed alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from steelyard.scheduling.quota import Flow, Levels, QuotaTree
from steelyard.scheduling.views import Charge

#: Of one tree: path from the root down, from the node up, and how much.
Part: TypeAlias = tuple[Levels, Flow, int]
Parts: TypeAlias = tuple[tuple[str, tuple[Part, ...]], ...]
#: Of one tree: a path from the node up, and how much at its lower end.
Sum: TypeAlias = tuple[str, Flow, int]
#: Tuples of charges that are known at once; when there are more, all are forgotten.
MOST_KEPT = 20_000


class Tariff:
    """Of some trees. Two threads may use one: what they put in is the same."""

    __slots__ = ("_kept", "trees")

    def __init__(self, trees: Mapping[str, QuotaTree]) -> None:
        self.trees = trees
        #: By the id of the tuple, which is held here, so that no other can have it.
        self._kept: dict[int, tuple[Iterable[Charge], Parts]] = {}

    def of(self, charges: Iterable[Charge]) -> Parts:
        """What limits are on, by tree. A node that is no longer there is passed over."""
        if not isinstance(charges, tuple):
            return self._made(charges)
        known = self._kept.get(id(charges))
        if known is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept = {}
            known = self._kept[id(charges)] = charges, self._made(charges)
        return known[1]

    def _made(self, charges: Iterable[Charge]) -> Parts:
        found: dict[str, list[Part]] = {}
        for item in charges:
            tree = self.trees.get(item.tree)
            if tree is None or item.subject not in tree.subjects or item.node not in tree.nodes:
                continue
            paths = tree.levels(item.node, item.subject), tree.flow(item.node, item.subject)
            found.setdefault(item.tree, []).append((*paths, item.quantity))
        return tuple((name, tuple(parts)) for name, parts in found.items())

    def sums(self, many: Iterable[Iterable[Charge]]) -> list[Sum]:
        """What some of these come to together, at each node."""
        net: dict[int, int] = {}  # by the id of the flow, which its tree keeps
        flows: dict[int, tuple[str, Flow]] = {}
        for charges in many:
            for tree, parts in self.of(charges):
                for _, flow, quantity in parts:
                    key = id(flow)
                    if key in net:
                        net[key] += quantity
                    else:
                        net[key], flows[key] = quantity, (tree, flow)
        return [(*flows[key], quantity) for key, quantity in net.items()]


def tariff_of(trees: Mapping[str, QuotaTree]) -> Tariff:
    """That of these very trees: kept with the first of them for as long as the others are the same."""
    first = next(iter(trees.values()), None)
    if first is None:
        return Tariff(trees)
    known = first.memory.get("tariff")
    if isinstance(known, Tariff) and len(known.trees) == len(trees):
        same = (known.trees.get(name) is tree for name, tree in trees.items())
        if all(same):
            return known
    made = first.memory["tariff"] = Tariff(dict(trees))
    return made

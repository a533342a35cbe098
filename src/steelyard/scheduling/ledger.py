"""The usage of all trees while a cycle is under way: a working copy that is charged and released."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.scheduling.quota import QuotaTree, Usage, available, charge
from steelyard.scheduling.views import Charge


@dataclass(frozen=True, slots=True)
class Ask:
    """A quantity of a governed subject at a node: what a quota check checks."""

    tree: str
    node: str
    subject: str
    quantity: int


class Ledger:
    """Mutable inside one cycle only."""

    def __init__(self, trees: Mapping[str, QuotaTree], usage: Mapping[str, Usage]) -> None:
        self.trees = trees
        self._usage = {name: dict(usage.get(name, {})) for name in trees}

    def usage(self, tree: str) -> Usage:
        """The usage as it stands."""
        return self._usage[tree]

    def available(self, tree: str, node: str, subject: str) -> int:
        """What is left for the node."""
        return available(self.trees[tree], self._usage[tree], node, subject)

    def fits(self, asks: Iterable[Ask]) -> bool:
        """True when each ask is available."""
        return all(ask.quantity <= self.available(ask.tree, ask.node, ask.subject) for ask in asks)

    def add(self, charges: Iterable[Charge], sign: int = 1) -> None:
        """Charges, or with sign −1 releases. A node that is no longer there is passed over."""
        for item in charges:
            tree = self.trees.get(item.tree)
            if tree is None or item.node not in tree.nodes:
                continue
            usage = self._usage[item.tree]
            quantity = sign * item.quantity
            for node, subject, delta in charge(tree, usage, item.node, item.subject, quantity):
                usage[node, subject] = usage.get((node, subject), 0) + delta

"""The usage of all trees while a cycle is under way: a working copy that is charged and released.

While holds wait for their victims, both are charged, but they never run together. So there are two
worlds, and what starts must fit in both: `now` has the victims and not what is held for, `then` has
the holds and not their victims. Without holds the two are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.scheduling.quota import QuotaTree, Usage, add_charge, available
from steelyard.scheduling.views import Charge, HoldView, RunningView

_Usages = dict[str, dict[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class Ask:
    """A quantity of a governed subject at a node: what a quota check checks."""

    tree: str
    node: str
    subject: str
    quantity: int


class Ledger:
    """Mutable inside one cycle only. `usage` counts everything charged, holds and victims both."""

    def __init__(self, trees: Mapping[str, QuotaTree], usage: Mapping[str, Usage]) -> None:
        self.trees = trees
        self._now: _Usages = {name: dict(usage.get(name, {})) for name in trees}
        self._then: _Usages | None = None
        self.ending: set[int] = set()  # attempts whose places somebody holds: not in `then`

    @property
    def worlds(self) -> tuple[Mapping[str, Usage], ...]:
        """`now`, and `then` where it differs."""
        return (self._now,) if self._then is None else (self._now, self._then)

    def available(self, tree: str, node: str, subject: str) -> int:
        """What is left for the node, in the tighter world."""
        quotas = self.trees[tree]
        left = available(quotas, self._now[tree], node, subject)
        return left if self._then is None else min(left, available(quotas, self._then[tree], node, subject))

    def fits(self, asks: Iterable[Ask]) -> bool:
        """True when each ask is available."""
        return all(ask.quantity <= self.available(ask.tree, ask.node, ask.subject) for ask in asks)

    def may_charge(self, charges: Iterable[Charge]) -> bool:
        """True when each charge is available. A node that is no longer there bounds nothing."""
        return all(
            item.quantity <= self.available(item.tree, item.node, item.subject)
            for item in charges
            if item.tree in self.trees and item.node in self.trees[item.tree].nodes
        )

    def add(self, charges: Iterable[Charge], sign: int = 1) -> None:
        """Charges, or with sign −1 releases, in both worlds."""
        self._add(self._now, charges, sign)
        if self._then is not None:
            self._add(self._then, charges, sign)

    def remove(self, attempt: RunningView) -> None:
        """Simulates the end of an attempt."""
        self._add(self._now, attempt.charges, -1)
        if self._then is not None and attempt.attempt_id not in self.ending:
            self._add(self._then, attempt.charges, -1)

    def reinstate(self, attempt: RunningView) -> None:
        """Undoes `remove`."""
        self._add(self._now, attempt.charges, 1)
        if self._then is not None and attempt.attempt_id not in self.ending:
            self._add(self._then, attempt.charges, 1)

    def keep(self, holds: Iterable[HoldView], running: Mapping[int, RunningView]) -> None:
        """Tells the worlds apart for holds that the usage counts already."""
        for hold in holds:
            self._split()
            self._add(self._now, hold.charges, -1)
            self._end(hold, running)

    def hold(self, hold: HoldView, running: Mapping[int, RunningView]) -> None:
        """Adds a new hold."""
        self._add(self._split(), hold.charges, 1)
        self._end(hold, running)

    def drop(self, hold: HoldView, sign: int = -1) -> None:
        """Takes a hold back, or with sign 1 undoes that. Its victims end all the same."""
        self._add(self._split(), hold.charges, sign)

    def _end(self, hold: HoldView, running: Mapping[int, RunningView]) -> None:
        for attempt in hold.victims:
            if attempt in running and attempt not in self.ending:
                self.ending.add(attempt)
                self._add(self._split(), running[attempt].charges, -1)

    def _split(self) -> _Usages:
        if self._then is None:
            self._then = {name: dict(usage) for name, usage in self._now.items()}
        return self._then

    def _add(self, usages: _Usages, charges: Iterable[Charge], sign: int) -> None:
        """A node that is no longer there is passed over."""
        for item in charges:
            tree = self.trees.get(item.tree)
            if tree is None or item.node not in tree.nodes:
                continue
            add_charge(tree, usages[item.tree], item.node, item.subject, sign * item.quantity)

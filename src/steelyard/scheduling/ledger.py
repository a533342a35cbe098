"""The usage of all trees while a cycle is under way: a working copy that is charged and released.

While holds wait for their victims, both are charged, but they never run together. So there are two
worlds, and what starts must fit in both: `now` has the victims and not what is held for, `then` has
the holds and not their victims. Without holds the two are one. Only what some limit of a tree is on is
kept here: of anything else nobody asks how much is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from steelyard.scheduling.quota import Levels, QuotaTree, Usage, add_flow, available, left
from steelyard.scheduling.tariff import Parts, Sum, tariff_of
from steelyard.scheduling.views import Charge, HoldView, RunningView

#: An ask made ready: tree, path from the root down, how much.
Check: TypeAlias = tuple[str, Levels, int]
_Usages = dict[str, dict[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class Ask:
    """A quantity of a governed subject at a node: what a quota check checks."""

    tree: str
    node: str
    subject: str
    quantity: int


def made_ready(trees: Mapping[str, QuotaTree], asks: Iterable[Ask]) -> tuple[Check, ...]:
    """The asks that some limit is on."""
    return tuple(
        (ask.tree, trees[ask.tree].levels(ask.node, ask.subject), ask.quantity)
        for ask in asks
        if ask.subject in trees[ask.tree].subjects
    )


def passes(checks: Iterable[Check], usages: Mapping[str, Usage]) -> bool:
    """True when each ask is available in one world."""
    for tree, levels, quantity in checks:  # a generator takes half as long again # noqa: SIM110
        if quantity > left(levels, usages[tree]):
            return False
    return True


class Ledger:
    """Mutable inside one cycle only. `usage` counts everything charged, holds and victims both."""

    def __init__(self, trees: Mapping[str, QuotaTree], usage: Mapping[str, Usage]) -> None:
        self.trees = trees
        self._tariff = tariff_of(trees)
        self._now: _Usages = {name: dict(usage.get(name, {})) for name in trees}
        self._then: _Usages | None = None
        self._worlds: tuple[_Usages, ...] = (self._now,)
        self.ending: set[int] = set()  # attempts whose places somebody holds: not in `then`
        self.rest: dict[int, tuple[Charge, ...]] = {}  # in `then`, of attempts that lose members only

    def beside(self) -> Ledger:
        """One of its own, as it stands."""
        made = Ledger(self.trees, self._now)
        if self._then is not None:
            made._split_off({name: dict(usage) for name, usage in self._then.items()})
        made.ending, made.rest = set(self.ending), dict(self.rest)
        return made

    @property
    def worlds(self) -> tuple[Mapping[str, Usage], ...]:
        """`now`, and `then` where it differs."""
        return self._worlds

    def available(self, tree: str, node: str, subject: str) -> int:
        """What is left for the node, in the tighter world."""
        quotas = self.trees[tree]
        return min(available(quotas, world[tree], node, subject) for world in self._worlds)

    def fits(self, asks: Iterable[Ask]) -> bool:
        """True when each ask is available."""
        for ask in asks:
            tree = self.trees[ask.tree]
            if ask.subject in tree.subjects:
                levels = tree.levels(ask.node, ask.subject)
                for world in self._worlds:
                    if ask.quantity > left(levels, world[ask.tree]):
                        return False
        return True

    def parts(self, charges: Iterable[Charge]) -> Parts:
        """Those of the charges that some limit is on, made ready."""
        return self._tariff.of(charges)

    def passes(self, checks: Iterable[Check]) -> bool:
        """As `fits`, of asks that were made ready."""
        if self._then is not None and not passes(checks, self._then):
            return False
        return passes(checks, self._now)

    def takes(self, parts: Parts) -> bool:
        """As `may_charge`, of charges that were made ready."""
        for tree, each in parts:
            for world in self._worlds:
                usage = world[tree]
                for levels, _, quantity in each:
                    if quantity > left(levels, usage):
                        return False
        return True

    def take(self, parts: Parts, sign: int = 1) -> None:
        """As `add`, of charges that were made ready."""
        for tree, each in parts:
            for world in self._worlds:
                usage = world[tree]
                for _, flow, quantity in each:
                    add_flow(usage, flow, sign * quantity)

    def may_charge(self, charges: Iterable[Charge]) -> bool:
        """True when each charge is available. A node that is no longer there bounds nothing."""
        return self.takes(self._tariff.of(charges))

    def add(self, charges: Iterable[Charge], sign: int = 1) -> None:
        """Charges, or with sign −1 releases, in both worlds."""
        self.take(self._tariff.of(charges), sign)

    def add_all(self, many: Iterable[Iterable[Charge]], sign: int = 1) -> None:
        """As `add` of each: charges at one node are linear, so many are charged as one."""
        self.add_sums(self.sums(many), sign)

    def sums(self, many: Iterable[Iterable[Charge]]) -> list[Sum]:
        """What some charges come to together."""
        return self._tariff.sums(many)

    def add_sums(self, sums: Iterable[Sum], sign: int = 1) -> None:
        """As `add_all`, of what was summed up."""
        for tree, flow, quantity in sums:
            for world in self._worlds:
                add_flow(world[tree], flow, sign * quantity)

    def remove(self, attempt: RunningView) -> None:
        """Simulates the end of an attempt."""
        self._add(self._now, attempt.charges, -1)
        if self._then is not None and attempt.attempt_id not in self.ending:
            self._add(self._then, self.rest.get(attempt.attempt_id, attempt.charges), -1)

    def reinstate(self, attempt: RunningView) -> None:
        """Undoes `remove`."""
        self._add(self._now, attempt.charges, 1)
        if self._then is not None and attempt.attempt_id not in self.ending:
            self._add(self._then, self.rest.get(attempt.attempt_id, attempt.charges), 1)

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
            return self._split_off({name: dict(usage) for name, usage in self._now.items()})
        return self._then

    def _split_off(self, then: _Usages) -> _Usages:
        self._then, self._worlds = then, (self._now, then)
        return then

    def _add(self, usages: _Usages, charges: Iterable[Charge], sign: int) -> None:
        for tree, parts in self._tariff.of(charges):
            usage = usages[tree]
            for _, flow, quantity in parts:
                add_flow(usage, flow, sign * quantity)

"""What will be used once some of what runs has ended, of what somebody asks for; nothing is given back.

A release takes as much off each node of its path as long as all of it flows up. Where a node keeps a part for
itself the path bends there, and is gone along with what is used below the same root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from steelyard.scheduling.ledger import Ask, Check, Ledger, passes
from steelyard.scheduling.quota import Flow, Usage, left
from steelyard.scheduling.tariff import Parts
from steelyard.scheduling.timeline import Ending
from steelyard.scheduling.views import Charge

_Key: TypeAlias = tuple[str, str]


class _After(Mapping[_Key, int]):
    """The usage of one tree without what has ended. It follows the usage that it is made of, as far as it is
    told by `turns` where that changes."""

    __slots__ = ("_bent", "_known", "_roots", "_straight", "_turns", "_usage")

    def __init__(self, usage: Usage, roots: dict[_Key, _Key], turns: dict[_Key, int]) -> None:
        """`roots`: of the nodes that bent paths lead through, their upper end; `turns`: how often something
        was charged below that. All of a tree share them."""
        self._usage = usage
        self._roots = roots
        self._turns = turns
        self._straight: dict[_Key, int] = {}
        self._bent: dict[_Key, list[tuple[Flow, int]]] = {}  # by the upper end of their paths
        #: By that end, what becomes of the usage, and when it was looked at.
        self._known: dict[_Key, tuple[int, dict[_Key, int]]] = {}

    def copy(self) -> _After:
        """One of its own."""
        made = _After(self._usage, self._roots, self._turns)
        made._straight = dict(self._straight)
        made._bent = {root: [*flows] for root, flows in self._bent.items()}
        return made

    def add(self, flow: Flow, quantity: int) -> None:
        """So much more has ended: that is a turn of its upper end."""
        key = flow[0][0]
        if key not in self._roots:
            if not any([local for _, local in flow[:-1]]):
                straight = self._straight
                for key, _ in flow:
                    straight[key] = straight.get(key, 0) + quantity
                return
            self._roots.update(dict.fromkeys([key for key, _ in flow], flow[-1][0]))
        self._bent.setdefault(flow[-1][0], []).append((flow, quantity))

    def get(self, key: _Key, default: int = 0) -> int:  # type: ignore[override]
        """As of any usage: what is not there is 0."""
        root = self._roots.get(key)
        if root is None:
            return self._usage.get(key, default) - self._straight.get(key, 0)
        known, turn = self._known.get(root), self._turns.get(root, 0)
        if known is None or known[0] != turn:
            known = self._known[root] = turn, self._along(root)
        used = known[1].get(key)
        return (self._usage.get(key, 0) if used is None else used) - self._straight.get(key, 0)

    def _along(self, root: _Key) -> dict[_Key, int]:
        """As `add_flow` with less of each, on a copy of what is met."""
        found: dict[_Key, int] = {}
        usage = self._usage
        for flow, ended in self._bent.get(root, ()):
            quantity = ended
            for key, local in flow:
                before = found.get(key)
                if before is None:
                    before = usage.get(key, 0)
                after = found[key] = before - quantity
                if local and quantity:
                    quantity = max(before - local, 0) - max(after - local, 0)
        return found

    def whole(self) -> dict[_Key, int]:
        """All of it."""
        found = dict(self._usage)
        for root in self._bent:
            found.update(self._along(root))
        for key, ended in self._straight.items():
            found[key] = found.get(key, 0) - ended
        return found

    def __getitem__(self, key: _Key) -> int:
        return self.get(key)

    def __iter__(self) -> Iterator[_Key]:
        return iter(self._usage)

    def __len__(self) -> int:
        return len(self._usage)


class Later(Ledger):
    """To be asked only: a ledger's usage after so many ends, as `at` sets it."""

    def __init__(self, ledger: Ledger, ends: Sequence[Ending]) -> None:
        super().__init__(ledger.trees, {})
        self._ledger = ledger
        self._ends = ends
        self._roots: dict[str, dict[_Key, _Key]] = {name: {} for name in ledger.trees}
        self._turns: dict[str, dict[_Key, int]] = {name: {} for name in ledger.trees}
        self._after: dict[int, tuple[dict[str, _After], ...]] = {0: tuple(map(self._of, ledger.worlds))}
        self._there = self._after[0]

    def _of(self, world: Mapping[str, Usage]) -> dict[str, _After]:
        return {name: _After(usage, self._roots[name], self._turns[name]) for name, usage in world.items()}

    def at(self, count: int) -> None:
        """So many have ended."""
        found = self._after.get(count)
        if found is None:
            last = max(each for each in self._after if each < count)
            found = self._after[count] = tuple(
                self._without(world, self._charged(number, self._ends[last:count]))
                for number, world in enumerate(self._after[last])
            )
        self._there = found

    def _without(self, world: Mapping[str, _After], more: Iterable[Iterable[Charge]]) -> dict[str, _After]:
        """The same when these have ended, too."""
        found = {name: after.copy() for name, after in world.items()}
        for tree, flow, quantity in self.sums(more):
            found[tree].add(flow, quantity)
        return found

    def _charged(self, world: int, ends: Iterable[Ending]) -> Iterable[Iterable[Charge]]:
        """One whose places somebody holds already counts in the first of the worlds only."""
        ending, rest = self._ledger.ending, self._ledger.rest
        if not world or not (ending or rest):
            return [end.charges for end in ends]
        return [rest.get(end.attempt_id, end.charges) for end in ends if end.attempt_id not in ending]

    def usage(self, count: int) -> Mapping[str, Usage]:
        """All of it in the last world."""
        self.at(count)
        return {name: after.whole() for name, after in self._there[-1].items()}

    def took(self, parts: Parts, ends: Sequence[Ending], at: int | None) -> None:
        """So much more is charged by now. `ends`, and `at`: where its end was put among them."""
        self._ends = ends
        if at is not None:
            later = [count for count in self._after if count > at]
            for count in sorted(later, reverse=True):
                worlds = self._after[count + 1] = self._after.pop(count)
                self._take_off(worlds, parts)
        for tree, each in parts:
            turns = self._turns[tree]
            for _, flow, _ in each:
                turns[flow[-1][0]] = turns.get(flow[-1][0], 0) + 1

    def _take_off(self, worlds: Iterable[Mapping[str, _After]], parts: Parts) -> None:
        for world in worlds:
            for tree, each in parts:
                for _, flow, quantity in each:
                    world[tree].add(flow, quantity)

    def passes(self, checks: Iterable[Check]) -> bool:
        """As a ledger does."""
        return all(passes(checks, world) for world in self._there)

    def fits(self, asks: Iterable[Ask]) -> bool:
        """As a ledger does."""
        for ask in asks:
            tree = self.trees[ask.tree]
            if ask.subject in tree.subjects:
                levels = tree.levels(ask.node, ask.subject)
                if any(ask.quantity > left(levels, world[ask.tree]) for world in self._there):
                    return False
        return True

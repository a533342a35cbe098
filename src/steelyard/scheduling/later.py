"""What will be used once some of what runs has ended, of what somebody asks for; nothing is given back.

A release takes as much off each node of its path as long as all of it flows up. Where a node keeps a part for
itself the path bends there, and is gone along with what is used below the same root.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from steelyard.scheduling.ledger import Ask, Check, Ledger
from steelyard.scheduling.quota import Flow, Usage, left
from steelyard.scheduling.tariff import Parts, Sum
from steelyard.scheduling.timeline import Ending
from steelyard.scheduling.views import Charge

_Key: TypeAlias = tuple[str, str]


class _After(Mapping[_Key, int]):
    """The usage of one tree without what has ended. It follows the usage that it is made of, as far as it is
    told by `forget` where that changes."""

    __slots__ = ("_bent", "_known", "_roots", "_straight", "_usage")

    def __init__(self, usage: Usage, sums: Iterable[tuple[Flow, int]]) -> None:
        self._usage = usage
        self._straight: dict[_Key, int] = {}
        self._bent: dict[_Key, list[tuple[Flow, int]]] = {}  # by the upper end of their paths
        self._roots: dict[_Key, _Key] = {}
        self._known: dict[_Key, dict[_Key, int]] = {}  # by that end, what becomes of the usage
        straight = self._straight
        for flow, quantity in sums:
            if len(flow) > 1 and any([local for _, local in flow[:-1]]):
                root = flow[-1][0]
                self._bent.setdefault(root, []).append((flow, quantity))
                self._roots.update(dict.fromkeys([key for key, _ in flow], root))
            else:
                for key, _ in flow:
                    straight[key] = straight.get(key, 0) + quantity

    def get(self, key: _Key, default: int = 0) -> int:  # type: ignore[override]
        """As of any usage: what is not there is 0."""
        root = self._roots.get(key)
        if root is None:
            return self._usage.get(key, default) - self._straight.get(key, 0)
        known = self._known.get(root)
        if known is None:
            known = self._known[root] = self._along(root)
        return known[key] - self._straight.get(key, 0)

    def _along(self, root: _Key) -> dict[_Key, int]:
        """As `add_flow` with less of each, on a copy of what is met."""
        found: dict[_Key, int] = {}
        usage = self._usage
        for flow, ended in self._bent[root]:
            quantity = ended
            for key, local in flow:
                before = found.get(key)
                if before is None:
                    before = usage.get(key, 0)
                after = found[key] = before - quantity
                if local and quantity:
                    quantity = max(before - local, 0) - max(after - local, 0)
        return found

    def forget(self, root: _Key) -> None:
        """Something was charged below it."""
        self._known.pop(root, None)

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
        self._sums: dict[int, tuple[dict[int, Sum], ...]] = {0: tuple({} for _ in ledger.worlds)}
        self._after: dict[int, tuple[dict[str, _After], ...]] = {}
        self._there: tuple[dict[str, _After], ...] = ()

    def at(self, count: int) -> None:
        """So many have ended."""
        found = self._after.get(count)
        if found is None:
            found = self._after[count] = tuple(map(self._made, self._ledger.worlds, self._summed(count)))
        self._there = found

    def _made(self, world: Mapping[str, Usage], sums: Mapping[int, Sum]) -> dict[str, _After]:
        by_tree: dict[str, list[tuple[Flow, int]]] = {name: [] for name in world}
        for tree, flow, quantity in sums.values():
            by_tree[tree].append((flow, quantity))
        return {name: _After(usage, by_tree[name]) for name, usage in world.items()}

    def _summed(self, count: int) -> tuple[dict[int, Sum], ...]:
        """By world, what those charge that have ended, by the flow that it takes."""
        known = self._sums.get(count)
        if known is None:
            last = max(each for each in self._sums if each < count)
            more = self._ends[last:count]
            known = self._sums[count] = tuple(
                _added(sums, self.sums(self._charged(number, more)))
                for number, sums in enumerate(self._sums[last])
            )
        return known

    def _charged(self, world: int, ends: Iterable[Ending]) -> Iterable[Iterable[Charge]]:
        """One whose places somebody holds already counts in the first of the worlds only."""
        ending, rest = self._ledger.ending, self._ledger.rest
        if not world or not (ending or rest):
            return [end.charges for end in ends]
        return [rest.get(end.attempt_id, end.charges) for end in ends if end.attempt_id not in ending]

    def usage(self, count: int) -> Mapping[str, Usage]:
        """All of it in the last world."""
        world = {name: dict(usage) for name, usage in self._ledger.worlds[-1].items()}
        found = Ledger(self.trees, world)
        found.add_sums(self._summed(count)[-1].values(), -1)
        return found.worlds[0]

    def took(self, parts: Parts, ends: Sequence[Ending], at: int | None) -> None:
        """So much more is charged by now. `ends`, and `at`: where its end was put among them."""
        self._ends = ends
        if at is not None:
            for count in [count for count in self._sums if count > at]:
                del self._sums[count]
                self._after.pop(count, None)
        for worlds in self._after.values():
            for world in worlds:
                for tree, each in parts:
                    for _, flow, _ in each:
                        world[tree].forget(flow[-1][0])

    def passes(self, checks: Iterable[Check]) -> bool:
        """As a ledger does."""
        for tree, levels, quantity in checks:
            for world in self._there:
                if quantity > left(levels, world[tree]):
                    return False
        return True

    def fits(self, asks: Iterable[Ask]) -> bool:
        """As a ledger does."""
        for ask in asks:
            tree = self.trees[ask.tree]
            if ask.subject in tree.subjects:
                levels = tree.levels(ask.node, ask.subject)
                if any(ask.quantity > left(levels, world[ask.tree]) for world in self._there):
                    return False
        return True


def _added(sums: Mapping[int, Sum], more: Iterable[Sum]) -> dict[int, Sum]:
    found = dict(sums)
    for tree, flow, quantity in more:
        key = id(flow)
        known = found.get(key)
        found[key] = (tree, flow, quantity if known is None else known[2] + quantity)
    return found

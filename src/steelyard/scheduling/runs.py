"""All that runs, by attempt, and in the order of victims by what it is charged to and what it has.

A cycle asks whose charges stand at a queue, or who has devices of a flavor: these lists follow what starts
and ends, and are made in full only when they are first asked for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.layered import Layered
from steelyard.scheduling.views import Charge, RunningView

#: Lowest priority first, then the most recently placed.
Order: TypeAlias = tuple[int, int, int]
Entry: TypeAlias = tuple[Order, RunningView]
#: (tree, node) that is charged, (FLAVOR, name) of what it has, or (NODE, id) of a node that it is on.
Where: TypeAlias = tuple[str, str]
FLAVOR, NODE = "flavor", "node"
_Lists: TypeAlias = dict[Where, list[Entry]]


def victim_order(attempt: RunningView) -> Order:
    """Lowest priority first, then the most recently placed."""
    return (attempt.priority, -attempt.placed_at, -attempt.attempt_id)


class Runs(Layered[int, RunningView]):
    """Immutable, as the mappings of a snapshot are."""

    __slots__ = ("_lists",)

    def __init__(self, entries: Mapping[int, RunningView]) -> None:
        super().__init__(entries)
        self._lists: _Lists | None = None

    def at(self, place: str, name: str) -> Sequence[Entry]:
        """What is charged to a node of a tree itself, has devices of a flavor or on a node, in the order of
        victims."""
        return self._known().get((place, name), ())

    def queues(self) -> list[str]:
        """Those in which something has devices, by name."""
        return sorted(name for place, name in self._known() if place == QUEUE_TREE)

    def _known(self) -> _Lists:
        if self._lists is None:
            lists: _Lists = {}
            for run in self.values():
                entry = (victim_order(run), run)
                for where in _places(run):
                    lists.setdefault(where, []).append(entry)
            for entries in lists.values():
                entries.sort(key=_order)
            self._lists = lists
        return self._lists

    def _derive(
        self, made: Runs, changed: Mapping[int, RunningView], gone: Collection[int]
    ) -> None:
        made._lists = None
        if self._lists is None:
            return
        lists, own = dict(self._lists), set[Where]()
        for key in {*gone, *changed}:
            before = self.get(key)
            if before is not None:
                _take_out(lists, own, before)
        for run in changed.values():
            entry = (victim_order(run), run)
            for where in _places(run):
                insort(_own(lists, own, where), entry, key=_order)
        made._lists = lists


def as_runs(running: Mapping[int, RunningView]) -> Runs:
    """The mapping itself where it is one."""
    return running if isinstance(running, Runs) else Runs(running)


def places_of(charges: Iterable[Charge], members: Iterable[MemberPlan]) -> set[Where]:
    """Where somebody who is charged this and has these members is found."""
    found = {(charge.tree, charge.node) for charge in charges}
    for member in members:
        found.add((NODE, str(member.node_id)))
        found.update((FLAVOR, held.flavor) for held in member.allocations)
    return found


def _places(run: RunningView) -> set[Where]:
    return {*places_of(run.charges, run.members), (QUEUE_TREE, run.queue)}


def _order(entry: Entry) -> Order:
    return entry[0]


def _own(lists: _Lists, own: set[Where], where: Where) -> list[Entry]:
    """The list of this version: copied from the one before when it is first changed."""
    if where not in own:
        own.add(where)
        lists[where] = list(lists.get(where, ()))
    return lists[where]


def _take_out(lists: _Lists, own: set[Where], run: RunningView) -> None:
    order = victim_order(run)
    for where in _places(run):
        entries = _own(lists, own, where)
        at = bisect_left(entries, order, key=_order)
        if at < len(entries) and entries[at][0] == order:
            del entries[at]
        if not entries:
            del lists[where]
            own.discard(where)

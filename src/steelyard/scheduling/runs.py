"""All that runs, by attempt, and in the order of victims by what it is charged to and what it has.

A cycle asks whose charges stand at a queue, or who has devices of a flavor: these lists follow what starts
and ends, and are made in full only when they are first asked for.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.layered import LEAST_CHANGES, Layered
from steelyard.scheduling.views import Charge, RunningView

#: Lowest priority first, then the most recently placed.
Order: TypeAlias = tuple[int, int, int]
Entry: TypeAlias = tuple[Order, RunningView]
#: (tree, node) that is charged, (FLAVOR, name) of what it has, or (NODE, id) of a node that it is on.
Where: TypeAlias = tuple[str, str]
FLAVOR, NODE = "flavor", "node"
#: (ELASTIC, queue): those of a queue of which members may leave alone.
ELASTIC = "elastic"
#: What stops; what has a bound, in the order in which it ends; what has none.
STOPS: Where = ("stops", "")
ENDS: Where = ("ends", "")
STAYS: Where = ("stays", "")
#: What may get members now.
GROWS: Where = ("grows", "")
_Lists: TypeAlias = dict[Where, list[Entry]]
_Change: TypeAlias = tuple[RunningView | None, RunningView | None]


def victim_order(attempt: RunningView) -> Order:
    """Lowest priority first, then the most recently placed."""
    return (attempt.priority, -attempt.placed_at, -attempt.attempt_id)


class Runs(Layered[int, RunningView]):
    """Immutable, as the mappings of a snapshot are."""

    __slots__ = ("_lists", "_since", "growing", "memory")

    def __init__(self, entries: Mapping[int, RunningView]) -> None:
        super().__init__(entries)
        self.growing = sum(1 for run in entries.values() if run.grows is not None)  # how many may get members
        self.memory: dict[Hashable, Any] = {}  # for what others derive of this very version
        self._lists: _Lists | None = None
        #: An earlier version's lists, and what changed since: (before, after), None where it was not there.
        self._since: tuple[_Lists, list[_Change]] | None = None

    def at(self, place: str, name: str) -> Sequence[Entry]:
        """What is charged to a node of a tree itself, has devices of a flavor or on a node, in the order of
        victims."""
        return self._known().get((place, name), ())

    def charged_below(self, queue: str, priority: int) -> Mapping[str, int]:
        """What a queue's lower priorities that may be stopped are charged in the queue tree."""
        known = self.memory.get(("below", queue, priority))
        if known is None:
            known = {}
            for _, run in self.at(QUEUE_TREE, queue):
                if run.priority >= priority:
                    break
                if run.preemptible and run.queue == queue:
                    for subject, amount in run.charged.items():
                        known[subject] = known.get(subject, 0) + amount
            self.memory["below", queue, priority] = known
        return cast("dict[str, int]", known)

    def queues(self) -> list[str]:
        """Those in which something has devices, by name."""
        return sorted(name for place, name in self._known() if place == QUEUE_TREE)

    def _known(self) -> _Lists:
        known, since = self._lists, self._since
        if known is None:  # two threads may both come here: they make the same
            known = self._lists = self._made() if since is None else _followed(*since)
            self._since = None
        return known

    def _made(self) -> _Lists:
        lists: _Lists = {}
        for run in self.values():
            for where, order in _places(run).items():
                lists.setdefault(where, []).append((order, run))
        for entries in lists.values():
            entries.sort(key=_order)
        return lists

    def _derive(self, made: Runs, changed: Mapping[int, RunningView], gone: Collection[int]) -> None:
        """Lists that nobody asks for cost nothing: what changed is noted until somebody does."""
        made._lists = made._since = None
        made.memory = {}
        known_before = (self.get(key) for key in {*changed, *gone})
        made.growing = self.growing - sum(1 for run in known_before if run and run.grows is not None)
        made.growing += sum(1 for run in changed.values() if run.grows is not None)
        known = (self._lists, []) if self._lists is not None else self._since
        if known is None:
            return
        changes = [*known[1], *((self.get(key), changed.get(key)) for key in {*gone, *changed})]
        if 2 * len(changes) < LEAST_CHANGES + len(made):
            made._since = known[0], changes


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


def _places(run: RunningView) -> dict[Where, Order]:
    """The lists that it is in, with its place in each."""
    order = victim_order(run)
    found = dict.fromkeys(places_of(run.charges, run.members), order)
    found[QUEUE_TREE, run.queue] = order
    if run.grows is not None and not run.stopping:
        found[GROWS] = order
    if run.ids:
        found[ELASTIC, run.queue] = order
    if run.stopping:
        found[STOPS] = order
    elif run.ends_by is None:
        found[STAYS] = order
    else:
        found[ENDS] = (run.ends_by, run.attempt_id, 0)
    return found


def _order(entry: Entry) -> Order:
    return entry[0]


def _followed(lists: _Lists, changes: Iterable[_Change]) -> _Lists:
    """The lists after the changes; those before stay as they are."""
    made, own = dict(lists), set[Where]()
    for before, after in changes:
        if before is not None:
            _take_out(made, own, before)
        if after is not None:
            for where, order in _places(after).items():
                insort(_own(made, own, where), (order, after))
    return made


def _own(lists: _Lists, own: set[Where], where: Where) -> list[Entry]:
    """The list of this version: copied from the one before when it is first changed."""
    if where not in own:
        own.add(where)
        lists[where] = list(lists.get(where, ()))
    return lists[where]


def _take_out(lists: _Lists, own: set[Where], run: RunningView) -> None:
    for where, order in _places(run).items():
        entries = _own(lists, own, where)
        at = bisect_left(entries, (order,))
        if at < len(entries) and entries[at][0] == order:
            del entries[at]
        if not entries:
            del lists[where]
            own.discard(where)

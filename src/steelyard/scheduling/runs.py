"""All that runs, by attempt, and in the order of victims by what it is charged to and what it has.

A cycle asks whose charges stand at a queue, or who has devices of a flavor: these lists follow what starts
and ends, and are made in full only when they are first asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.entries import Draft, Entries, Order
from steelyard.scheduling.layered import LEAST_CHANGES, Layered
from steelyard.scheduling.views import Charge, RunningView

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
_TIMES = frozenset({STOPS, ENDS, STAYS})
_Times: TypeAlias = dict[Where, Entries[RunningView]]
_Change: TypeAlias = tuple[RunningView | None, RunningView | None]


@dataclass(frozen=True, slots=True)
class _Band:
    """Of one queue and priority: how many run, and what those that may be stopped are charged there."""

    count: int = 0
    charged: Mapping[str, int] = field(default_factory=dict)

    def with_(self, run: RunningView, sign: int) -> _Band:
        """With one more, or one less."""
        if not run.preemptible:
            return _Band(self.count + sign, self.charged)
        charged = dict(self.charged)
        for subject, amount in run.charged.items():
            charged[subject] = charged.get(subject, 0) + sign * amount
        return _Band(self.count + sign, charged)


@dataclass(frozen=True, slots=True)
class _Lists:
    """What is kept of one version; the next shares what did not change."""

    at: Layered[Where, Entries[RunningView]]
    bands: dict[str, dict[int, _Band]]  # by queue and priority


def victim_order(attempt: RunningView) -> Order:
    """Lowest priority first, then the most recently placed."""
    return (attempt.priority, -attempt.placed_at, -attempt.attempt_id)


class Runs(Layered[int, RunningView]):
    """Immutable, as the mappings of a snapshot are."""

    __slots__ = ("_lists", "_since", "_times", "_times_since", "memory")

    def __init__(self, entries: Mapping[int, RunningView]) -> None:
        super().__init__(entries)
        self.memory: dict[Hashable, Any] = {}  # for what others derive of this very version
        self._lists: _Lists | None = None
        #: An earlier version's lists, and what changed since: (before, after), None where it was not there.
        self._since: tuple[_Lists, list[_Change]] | None = None
        #: The lists by time, which are asked for in each cycle, in the same way.
        self._times: _Times | None = None
        self._times_since: tuple[_Times, list[_Change]] | None = None

    def at(self, place: str, name: str) -> Sequence[Entry]:
        """What is charged to a node of a tree itself, has devices of a flavor or on a node, in the order of
        victims."""
        where = (place, name)
        found: Sequence[Entry]
        found = self._timed().get(where, _NOBODY) if where in _TIMES else self._known().at.get(where, _NOBODY)
        return found

    def charged_below(self, queue: str, priority: int) -> Mapping[str, int]:
        """What a queue's lower priorities that may be stopped are charged in the queue tree."""
        key = ("below", queue, priority)
        known: dict[str, int] | None = self.memory.get(key)
        if known is None:
            known = self.memory[key] = {}
            for value, band in self._known().bands.get(queue, {}).items():
                for subject, amount in band.charged.items() if value < priority else ():
                    known[subject] = known.get(subject, 0) + amount
        return known

    def queues(self) -> list[str]:
        """Those in which something has devices, by name."""
        return sorted(self._known().bands)

    def _known(self) -> _Lists:
        known, since = self._lists, self._since
        if known is None:  # two threads may both come here: they make the same
            known = self._lists = self._made() if since is None else _followed(*since)
            self._since = None
        return known

    def _timed(self) -> _Times:
        known, since = self._times, self._times_since
        if known is None:
            is_short = since is not None and len(since[1]) * 4 < len(self)  # else all of it is sorted faster
            known = self._times = _later(*since) if since and is_short else _in_time(self.values())
            self._times_since = None
        return known

    def _made(self) -> _Lists:
        lists: dict[Where, list[Entry]] = {}
        bands: dict[str, dict[int, _Band]] = {}
        for run in self.values():
            for where, order in _places(run).items():
                lists.setdefault(where, []).append((order, run))
            _count(bands, run, 1)
        for entries in lists.values():
            entries.sort(key=_order)
        return _Lists(Layered({where: Entries(entries) for where, entries in lists.items()}), bands)

    def _derive(self, made: Runs, changed: Mapping[int, RunningView], gone: Collection[int]) -> None:
        """Lists that nobody asks for cost nothing: what changed is noted until somebody does."""
        made._lists = made._since = made._times = made._times_since = None
        made.memory = {}
        delta = [(self.get(key), changed.get(key)) for key in {*gone, *changed}]
        most = (LEAST_CHANGES + len(made)) // 2
        known = (self._lists, []) if self._lists is not None else self._since
        if known is not None and len(known[1]) + len(delta) < most:
            made._since = known[0], [*known[1], *delta]
        times = (self._times, []) if self._times is not None else self._times_since
        if times is not None and len(times[1]) + len(delta) < most:
            made._times_since = times[0], [*times[1], *delta]


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
    if run.ids:
        found[ELASTIC, run.queue] = order
    return found


def _time(run: RunningView) -> tuple[Where, Order]:
    """The list by time that it is in, with its place there."""
    if run.stopping:
        return STOPS, victim_order(run)
    if run.ends_by is None:
        return STAYS, victim_order(run)
    return ENDS, (run.ends_by, run.attempt_id, 0)


def _in_time(runs: Iterable[RunningView]) -> _Times:
    lists: dict[Where, list[Entry]] = {}
    for run in runs:
        where, order = _time(run)
        lists.setdefault(where, []).append((order, run))
    for entries in lists.values():
        entries.sort(key=_order)
    return {where: Entries(entries) for where, entries in lists.items()}


def _later(times: _Times, changes: Iterable[_Change]) -> _Times:
    """The lists after the changes; those before stay as they are."""
    drafts: dict[Where, Draft[RunningView]] = {}

    def draft(where: Where) -> Draft[RunningView]:
        if where not in drafts:
            drafts[where] = Draft(times.get(where, _NOBODY))
        return drafts[where]

    for before, after in changes:
        if before is not None:
            where, order = _time(before)
            draft(where).take_out(order)
        if after is not None:
            where, order = _time(after)
            draft(where).add(order, after)
    return {**times, **{where: each.made() for where, each in drafts.items()}}


def _order(entry: Entry) -> Order:
    return entry[0]


def _followed(lists: _Lists, changes: Iterable[_Change]) -> _Lists:
    """The lists after the changes; those before stay as they are."""
    drafts: dict[Where, Draft[RunningView]] = {}
    bands = {queue: dict(known) for queue, known in lists.bands.items()}
    for before, after in changes:
        if before is not None:
            for where, order in _places(before).items():
                _draft(lists, drafts, where).take_out(order)
            _count(bands, before, -1)
        if after is not None:
            for where, order in _places(after).items():
                _draft(lists, drafts, where).add(order, after)
            _count(bands, after, 1)
    made = {where: draft.made() for where, draft in drafts.items()}
    gone = [where for where, entries in made.items() if not entries]
    return _Lists(lists.at.with_({where: made[where] for where in made.keys() - set(gone)}, gone), bands)


def _draft(lists: _Lists, drafts: dict[Where, Draft[RunningView]], where: Where) -> Draft[RunningView]:
    known = drafts.get(where)
    if known is None:
        known = drafts[where] = Draft(lists.at.get(where, _NOBODY))
    return known


def _count(bands: dict[str, dict[int, _Band]], run: RunningView, sign: int) -> None:
    of = bands.setdefault(run.queue, {})
    band = of[run.priority] = of.get(run.priority, _Band()).with_(run, sign)
    if not band.count:
        del of[run.priority]
    if not of:
        del bands[run.queue]


_NOBODY: Entries[RunningView] = Entries()

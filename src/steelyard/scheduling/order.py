"""Whose turn it is: a tournament up the queue tree between queues, and an order within each of them.

Within a queue, smaller is first: what a service is guaranteed; the higher band; what is due (it has waited
half of its queue's starvation bound); the project, then the user, that used less of the queue lately, where
the past counts; what is shorter, or was served less, where the queue says so (`precedence`); the earlier
submit time, by which what ages counts as younger; the ids. A guarantee lies within its queue's nominal quota,
so that it takes nothing that is somebody else's.

Between the children of a cohort, each stands with the first of its own, and the smaller is first: what is
guaranteed; the share above quota with what is asked for (FairShare; without it for what is due, so that a
large gang is not passed by small ones for ever, and without the past where that makes it smaller), or whether
it has to borrow (Priority); then band, time and ids (under StrictPriority these alone). Between roots, which
share nothing but devices, they decide, too.

After a placement only the queues it charged or evicted from change their places. What does not fit blocks
its own shape (an equal one can't fit either); at the head of a StrictFIFO queue all behind it on its flavors.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from steelyard.model.policy import Precedence
from steelyard.model.workloads import Shape
from steelyard.scheduling.context import Context
from steelyard.scheduling.precedence import size
from steelyard.scheduling.turns import Key, Rank
from steelyard.scheduling.views import PendingItem, ShapeGroup

_TOP = ""  # above all roots; no node has an empty name
_OWN = "/"  # ends no node's name


class _Line:
    """What waits in one queue: the first of each shape, in a heap."""

    __slots__ = ("heap", "ladder", "path", "queue", "shut")

    def __init__(self, queue: str, path: tuple[str, ...], ladder: tuple[tuple[str, _Contest], ...]) -> None:
        self.queue = queue
        self.path = path  # from the queue up to its root
        self.ladder = ladder  # the same, each with the contest that it is in
        self.heap: list[_Entry] = []
        self.shut: set[str] = set()  # flavors that a head waits for, whom nothing may pass


class _Heads:
    """What waits of a shape, in order, from the first that is still to be looked at."""

    __slots__ = ("at", "items")

    def __init__(self, items: Sequence[PendingItem]) -> None:
        self.items = items
        self.at = 0

    @property
    def first(self) -> PendingItem:
        """Of those that are left."""
        return self.items[self.at]

    def pop(self) -> PendingItem:
        """Takes the first out."""
        self.at += 1
        return self.items[self.at - 1]

    def put_back(self, item: PendingItem) -> None:
        """One that was taken out is the first again."""
        self.at -= 1
        if self.items[self.at] is not item:
            self.items, self.at = [item, *self.items[self.at + 1 :]], 0


#: A shape in its queue's line: the first's place, the shape's key, the shape, what waits of it; and how many
#: had started in the queue when the place was looked at.
_Entry: TypeAlias = tuple[Key, str, Shape, _Heads, int]


class _Contest:
    """The children of a node that have somebody waiting, by rank. Entries that no longer hold stay behind in
    the heap until they come up."""

    __slots__ = ("_heap", "_ranks", "lines")

    def __init__(self) -> None:
        self.lines: dict[str, _Line | None] = {}  # child → whose turn it is below it
        self._ranks: dict[str, Rank | None] = {}
        self._heap: list[tuple[Rank, str]] = []

    def put(self, child: str, rank: Rank | None, line: _Line | None) -> None:
        """`line` None: nobody waits below the child. `rank` None: it is the only child."""
        self.lines[child] = line
        self._ranks[child] = rank
        if rank is not None and line is not None:
            heapq.heappush(self._heap, (rank, child))

    def first(self) -> _Line | None:
        """The winner's line."""
        if len(self.lines) == 1:
            return next(iter(self.lines.values()))
        while self._heap:
            rank, child = self._heap[0]
            line = self.lines[child]
            if line is not None and self._ranks[child] is rank:
                return line
            heapq.heappop(self._heap)
        return None


class Waiting:
    """All that waits, in order."""

    def __init__(self, context: Context, groups: Iterable[ShapeGroup], held: Iterable[int]) -> None:
        """`held` are attempts that have a place kept for them; they don't wait here."""
        self.turns = context.turns
        self.shapes: dict[str, Shape] = {}
        self.later: list[tuple[Shape, PendingItem]] = []  # not eligible yet
        self.unseen: set[str] = set()  # shapes that have more waiting than heads
        self.behind: list[Shape] = []  # a head that nothing may pass
        self._context = context
        self._heads: dict[str, _Heads] = {}
        self._lines: dict[str, _Line] = {}  # by queue
        self._ends: dict[str, _Line] = {}  # by the last node of its path
        self._top = _Contest()
        self._contests: dict[str, _Contest] = {_TOP: self._top}
        self._evicted = 0  # how many evictions are taken into account
        self._stale: set[str] = set()  # queues
        self._sort(groups, frozenset(held))
        for key in self._heads:
            self._enter(self.shapes[key])
        for queue in self._lines:
            self._stale.add(queue)

    def _sort(self, groups: Iterable[ShapeGroup], skip: frozenset[int]) -> None:
        now = self._context.now
        kept = {hold.shape.key for hold in self._context.holds.values()}
        kept |= {placement.shape_key for placement in self._context.placements}
        mixed: set[str] = set()  # shapes that have to be put in order
        for group in groups:
            key = group.shape.key
            self.shapes[key] = group.shape
            if group.count > len(group.heads):
                self.unseen.add(key)
            if group.since <= now and group.in_turn and key not in kept and key not in self._heads:
                self._heads[key] = _Heads(group.heads)
                if self.turns.precedence(group.shape.queue) is not Precedence.FIRST_COME:
                    mixed.add(key)
                continue
            mixed.add(key)
            heads = [item for item in group.heads if item.attempt_id not in skip] if skip else [*group.heads]
            late = [item for item in heads if item.not_before > now or item.eligible_at > now]
            if late:
                self.later += [(group.shape, item) for item in late]
                heads = [item for item in heads if item.not_before <= now and item.eligible_at <= now]
            if heads:
                before = self._heads.get(key)
                self._heads[key] = _Heads([*before.items, *heads] if before is not None else heads)
        for key in mixed & self._heads.keys():
            if len(self._heads[key].items) > 1:
                self._heads[key] = _Heads(self._in_order(self.shapes[key], self._heads[key].items))

    def _in_order(self, shape: Shape, heads: Iterable[PendingItem]) -> list[PendingItem]:
        """Within a shape all but these is the same."""
        is_due, queue = self.turns.is_due, shape.queue
        precedence = self.turns.precedence(queue)
        return sorted(
            heads,
            key=lambda item: (
                not item.guaranteed, not is_due(queue, item), size(precedence, shape, item),
                item.submitted, item.workload_id, item.attempt_id,
            ),
        )  # fmt: skip

    def _enter(self, shape: Shape) -> None:
        """The first of a shape takes its place in its queue's line."""
        line = self._lines.get(shape.queue)
        if line is None:
            line = self._lines[shape.queue] = self._line(shape.queue)
        heads, starts = self._heads[shape.key], self.turns.past.starts.get(shape.queue, 0)
        heapq.heappush(line.heap, (self.turns.key(shape, heads.first), shape.key, shape, heads, starts))

    def _line(self, queue: str) -> _Line:
        tree = self.turns.tree
        known = tree is not None and queue in tree.nodes
        path = tree.path(queue) if tree is not None and known else (queue,)
        if tree is not None and known and tree.children(queue):
            path = (f"{queue}{_OWN}", *path)  # what waits in a cohort itself stands beside its children
        ladder = []
        for child, parent in zip(path, (*path[1:], _TOP), strict=True):
            contest = self._contests.get(parent)
            if contest is None:
                contest = self._contests[parent] = _Contest()
            contest.lines.setdefault(child, None)
            ladder.append((child, contest))
        line = self._ends[path[0]] = _Line(queue, path, (*ladder,))
        return line

    # --- what decides ------------------------------------------------------------------------------
    def pop(self) -> tuple[Shape, PendingItem] | None:
        """The next attempt to look at. Call `again` when others of its shape may follow."""
        evictions = self._context.evictions
        if len(evictions) != self._evicted:
            self.charged(eviction.queue for eviction in evictions.values())
            self._evicted = len(evictions)
        if self._stale:
            self._refresh()
        line = self._top.first()
        if line is None:
            return None
        _, _, shape, heads, _ = heapq.heappop(line.heap)
        self._stale.add(line.queue)
        return shape, heads.pop()

    def again(self, shape: Shape) -> None:
        """Lets the next of the shape follow in its turn."""
        heads = self._heads[shape.key]
        if heads.at < len(heads.items):
            self._enter(shape)

    def put_back(self, shape: Shape, item: PendingItem) -> None:
        """Lets a popped attempt come up again. Its shape must not be in line now."""
        self._heads[shape.key].put_back(item)
        self._enter(shape)
        self._stale.add(shape.queue)

    def charged(self, queues: Iterable[str]) -> None:
        """The use of these queues has changed. That of a popped attempt's own, and of those from which was
        evicted, is looked at anyway."""
        self._stale.update(queue for queue in queues if queue in self._lines)

    def stop_behind(self, shape: Shape) -> None:
        """Nothing of its queue may pass this head on the flavors it could go to."""
        plan = self._context.plan(shape)
        self._lines[shape.queue].shut.update(plan.lead.flavors, plan.lead.silent)

    # --- the tournament ----------------------------------------------------------------------------
    def _refresh(self) -> None:
        """Sets the stale queues, and all above them, among their siblings anew, each node once."""
        if len(self._stale) == 1:
            line = self._lines[self._stale.pop()]
            self._settle(line)
            winner = line if line.heap else None
            for child, contest in line.ladder:
                self._place(contest, child, winner)
                winner = contest.first()
            return
        levels: dict[int, dict[str, str]] = {}  # by distance from the root: node → its parent
        for queue in sorted(self._stale):
            above = _TOP
            for depth, child in enumerate(reversed(self._lines[queue].path)):
                levels.setdefault(depth, {})[child] = above
                above = child
        for depth in sorted(levels, reverse=True):
            for child, parent in levels[depth].items():
                self._set(child, parent)
        self._stale.clear()

    def _set(self, child: str, parent: str) -> None:
        line = self._ends.get(child)
        if line is not None:
            self._settle(line)
            winner = line if line.heap else None
        else:
            winner = self._contests[child].first()
        self._place(self._contests[parent], child, winner)

    def _place(self, contest: _Contest, child: str, winner: _Line | None) -> None:
        rank = None
        if winner is not None and len(contest.lines) > 1:
            _, _, shape, heads, _ = winner.heap[0]
            rank = self.turns.rank(child, shape, heads.first)
        contest.put(child, rank, winner)

    def _settle(self, line: _Line) -> None:
        """Brings the line's first up to date: use may have grown meanwhile, and nothing passes a head."""
        heap, turns = line.heap, self.turns
        starts = turns.past.starts.get(line.queue, 0)
        while heap:
            _, name, shape, heads, at = heap[0]
            if line.shut and self._is_shut(line, shape):
                heapq.heappop(heap)
                self.behind.append(shape)
                continue
            if at == starts:  # nothing that counts in it has changed
                return
            heapq.heapreplace(heap, (turns.key(shape, heads.first), name, shape, heads, starts))

    def _is_shut(self, line: _Line, shape: Shape) -> bool:
        plan = self._context.plan(shape)
        return not plan.roles or not line.shut.isdisjoint((*plan.lead.flavors, *plan.lead.silent))

    # --- what is left ------------------------------------------------------------------------------
    @property
    def empty(self) -> bool:
        """True when nobody is left to look at."""
        return not any(line.heap for line in self._lines.values())

    def rest(self) -> list[str]:
        """Keys of the shapes not looked at in full, in the order of their own lines."""
        return [key for _, key in sorted(entry[:2] for line in self._lines.values() for entry in line.heap)]

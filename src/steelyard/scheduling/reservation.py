"""Reservations: the blocked workloads at the head of a queue get a place on the timeline, and what comes
after them goes first only if it does not delay them (backfill, after EASY with N reservations).

A reservation is the earliest instant at which a whole gang finds places and quota, given what ends until
then. Nothing of it is stored: each cycle makes it anew, in the order of the queue, and with exact bounds it
never moves to a later instant through what was let go first. While it is in force its places count as taken.
An attempt that ends before it starts may use them; any other may not, and has to fit beside it in the quotas
of that instant.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager

from steelyard.model.workloads import Shape
from steelyard.scheduling.board import Board
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.ledger import Ask, Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan, allocations_of
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.timeline import Release, end_if_started, releases
from steelyard.scheduling.views import Charge, HoldView, PendingItem

#: Attempts for which a place on the timeline is looked for in one cycle; of a queue as many as it may have
#: reservations, and a few more.
MAX_TRIES = 64
TRIES_BESIDE = 3


class Reservations:
    """Those of one cycle, on its working copies. In force from when they are made until `lift_all`."""

    def __init__(self, snapshot: Snapshot, board: Board, ledger: Ledger, placer: Placer, now: int) -> None:
        self._snapshot = snapshot
        self._board = board
        self._ledger = ledger
        self._placer = placer
        self._now = now
        self.made: list[Reservation] = []
        self._worlds: list[Ledger] = []  # the usage at the instant of each
        self._by_queue: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self._tried = 0
        self._last: str | None = None  # the shape whose attempt got one just now
        self._are_lifted = False
        self._known: list[Release] | None = None
        self._reach: dict[str, int] = {}

    # --- what may go first -----------------------------------------------------------------------
    def until(self, shape: Shape) -> int | None:
        """When an attempt of a shape that starts now has ended at the latest."""
        return end_if_started(shape, self._now)

    def place_before(self, plan: ShapePlan, avoid: Collection[int] = ()) -> Plan | None:
        """Takes places for an attempt that has ended before the reservations start whose places it uses."""
        until = self.until(plan.shape)
        later = [] if until is None else [made for made in self.made if made.starts_at >= until]
        if not later:
            return None
        with self._lifted(later):
            return self._placer.place(plan, fresh=True, avoid=avoid)

    def admits(self, plan: ShapePlan, found: Plan) -> bool:
        """True when those of the reservations that it would meet have their quota beside it."""
        until = self.until(plan.shape)
        return all(
            _fits(world, found.charges)
            for made, world in zip(self.made, self._worlds, strict=True)
            if until is None or made.starts_at < until
        )

    def started(self, plan: ShapePlan, item: PendingItem, found: Plan) -> None:
        """Takes note of a placement."""
        until = self.until(plan.shape)
        for made, world in zip(self.made, self._worlds, strict=True):
            if until is None or made.starts_at < until:
                world.add(found.charges)
        if until is not None:
            self._add(Release(until, item.attempt_id, found.members, found.charges))

    def held(self, hold: HoldView) -> None:
        """Takes note of places that are kept for a preemptor, of which nobody knows how long it will run."""
        for world in self._worlds:
            world.add(hold.charges)

    # --- making them -------------------------------------------------------------------------------
    def reserve(self, plan: ShapePlan, item: PendingItem, most: int) -> Reservation | None:
        """A place for a blocked attempt, if its queue may have another one and an instant can be named."""
        self._last = None
        queue = plan.shape.queue
        if self._by_queue.get(queue, 0) >= most or not plan.roles or item.standby:
            return None
        tries = self._tries.get(queue, 0)
        if tries >= most + TRIES_BESIDE or self._tried >= MAX_TRIES or not self._in_reach(plan):
            return None
        self._tries[queue], self._tried = tries + 1, self._tried + 1
        found = self._earliest(plan)
        if found is None:
            return None
        at, places = found
        shape = plan.shape
        made = Reservation(
            item.workload_id, item.attempt_id, shape.key, queue, shape.project, at,
            end_if_started(shape, at), places.members, places.charges,
        )
        self._by_queue[queue] = self._by_queue.get(queue, 0) + 1
        self._last = shape.key
        self._keep(made)
        return made

    def goes_on(self, shape: Shape, most: int) -> bool:
        """True when the shape's last attempt got a reservation, and its queue may have another one."""
        return self._last == shape.key and self._by_queue.get(shape.queue, 0) < most

    def _in_reach(self, plan: ShapePlan) -> bool:
        """A cheap necessary test: what is free and all that ends must suffice in sum."""
        if not self._releases():
            return False
        lead = plan.lead
        wanted = lead.count * lead.need.amount
        return any(self._board.free(name) + self._reach.get(name, 0) >= wanted for name in lead.flavors)

    def _releases(self) -> list[Release]:
        if self._known is None:
            self._known = []
            for release in releases(self._snapshot, self._now):
                self._add(release, self._known)
        return self._known

    def _add(self, release: Release, known: list[Release] | None = None) -> None:
        into = self._releases() if known is None else known
        insort(into, release, key=_order)
        for _, allocation in allocations_of(release.members):
            self._reach[allocation.flavor] = self._reach.get(allocation.flavor, 0) + allocation.quantity

    def _earliest(self, plan: ShapePlan) -> tuple[int, Plan] | None:
        """At the first of the instants at which something ends after which it fits."""
        ending = self._releases()
        steps = [  # of each instant, how many have ended by it
            index + 1
            for index, release in enumerate(ending)
            if index + 1 == len(ending) or ending[index + 1].at > release.at
        ]
        future = _Future(self._board, self._ledger, self._placer, ending, self.made)
        low, high = -1, len(steps) - 1
        found = future.attempt(plan, steps[high])
        if found is not None:
            while high - low > 1:
                middle = (low + high) // 2
                earlier = future.attempt(plan, steps[middle])
                if earlier is None:
                    low = middle
                else:
                    high, found = middle, earlier
        future.restore()
        return None if found is None else (ending[steps[high] - 1].at, found)

    def _keep(self, made: Reservation) -> None:
        ledger = self._ledger
        world = Ledger(ledger.trees, ledger.worlds[-1])
        for release in self._releases():
            if release.at <= made.starts_at and release.attempt_id not in ledger.ending:
                world.add(release.charges, -1)
        world.add(made.charges)
        for other, usage in zip(self.made, self._worlds, strict=True):
            if other.runs_at(made.starts_at):
                world.add(other.charges)
            if made.runs_at(other.starts_at):
                usage.add(made.charges)
        self.made.append(made)
        self._worlds.append(world)
        self._board.change_members(made.members, -1)
        if made.ends_at is not None:
            self._add(Release(made.ends_at, made.attempt_id, made.members, made.charges))

    # --- in force and not --------------------------------------------------------------------------
    @contextmanager
    def _lifted(self, some: list[Reservation]) -> Iterator[None]:
        for made in some:
            self._board.change_members(made.members, 1)
        yield
        for made in some:
            self._board.change_members(made.members, -1)

    def lift_all(self) -> None:
        """Gives all their places back: at the end of a cycle, before reasons are made."""
        if not self._are_lifted:
            self._are_lifted = True
            for made in self.made:
                self._board.change_members(made.members, 1)

    def in_the_way_of(self, plan: ShapePlan) -> Reservation | None:
        """The first reservation that keeps from starting what fits otherwise. After `lift_all`."""
        until = self.until(plan.shape)
        applied: list[Reservation] = []
        blocker = None
        for made, world in zip(self.made, self._worlds, strict=True):
            if until is not None and made.starts_at >= until:
                continue
            self._board.change_members(made.members, -1)
            applied.append(made)
            found = self._placer.place(plan, fresh=True)
            if found is not None:
                self._board.change_members(found.members, 1)
            if found is None or not _fits(world, found.charges):
                blocker = made
                break
        for made in applied:
            self._board.change_members(made.members, 1)
        return blocker


class _Future:
    """The working copies as they are after the first of the releases, with the reservations charged."""

    def __init__(
        self, board: Board, ledger: Ledger, placer: Placer, ending: list[Release], made: Iterable[Reservation]
    ) -> None:
        self.board = board
        self.ledger = ledger
        self.placer = placer
        self.ending = ending
        self.made = list(made)
        self.passed = 0
        for reservation in self.made:
            ledger.add(reservation.charges)

    def attempt(self, plan: ShapePlan, count: int) -> Plan | None:
        """Where the gang would go after that many; nothing stays taken."""
        while self.passed < count:
            self._end(self.ending[self.passed], 1)
            self.passed += 1
        while self.passed > count:
            self.passed -= 1
            self._end(self.ending[self.passed], -1)
        found = self.placer.place(plan, fresh=True)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

    def _end(self, release: Release, sign: int) -> None:
        self.board.change_members(release.members, sign)
        if release.run is None:
            self.ledger.add(release.charges, -sign)
        elif sign > 0:
            self.ledger.remove(release.run)
        else:
            self.ledger.reinstate(release.run)

    def restore(self) -> None:
        while self.passed:
            self.passed -= 1
            self._end(self.ending[self.passed], -1)
        for reservation in self.made:
            self.ledger.add(reservation.charges, -1)


def _order(release: Release) -> tuple[int, int]:
    return (release.at, release.attempt_id)


def _fits(ledger: Ledger, charges: Iterable[Charge]) -> bool:
    trees = ledger.trees
    return ledger.fits(
        Ask(item.tree, item.node, item.subject, item.quantity)
        for item in charges
        if item.tree in trees and item.node in trees[item.tree].nodes
    )

"""Reservations: the blocked workloads at the head of a queue get a place on the timeline, and what comes
after them goes first only if it does not delay them (backfill, after EASY with N reservations).

A reservation is the earliest instant at which a whole gang finds places and quota, given what ends until
then. Nothing of it is stored: each cycle makes it anew, in the order of the queue, and with exact bounds it
does not move to a later instant through what comes after it. One that is ahead may fit in before another's
reservation and start sooner than its own said; those behind it may then start later. While a reservation is
in force its places count as taken.
An attempt that ends before it starts may use them; any other may not, and has to fit beside it in the quotas
of that instant.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.board import Board
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.future import Future, Lifted
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan, may_fit
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.tariff import Parts
from steelyard.scheduling.timeline import Release, Timeline, end_if_started, latest_end
from steelyard.scheduling.views import Charge, HoldView, PendingItem, RunningView, amounts_of

#: Attempts for which a place on the timeline is looked for in one cycle; of a queue as many as it may have
#: reservations, and a few more.
MAX_TRIES = 16
TRIES_BESIDE = 3
#: Ends that are looked past in all these searches of one cycle, and those before where they begin.
MAX_MOVES = 1_024
MAX_PASSED = 4_096


class Reservations:
    """Those of one cycle, on its working copies. In force from when they are made until `lift_all`."""

    def __init__(self, snapshot: Snapshot, board: Board, ledger: Ledger, placer: Placer, now: int) -> None:
        self._snapshot = snapshot
        self._board = board
        self._ledger = ledger
        self._placer = placer
        self._now = now
        self.made: list[Reservation] = []
        self._worlds: list[Ledger] = []  # the usage at the instant of each; at the same instant the same one
        self._instants: list[tuple[int, Ledger]] = []  # each of these once
        self._at: dict[int, Ledger] = {}  # those that the next one at an instant is added to
        self._idle: dict[int, dict[str, int]] = {}  # by attempt and flavor: kept, and free now
        #: Those that start no sooner than an instant, and what is kept for them and idle, by flavor.
        self._later: dict[int, tuple[list[Reservation], dict[str, int]]] = {}
        self._by_queue: dict[str, int] = {}
        self._tries: dict[str, int] = {}
        self._tried = 0
        self._last: str | None = None  # the shape whose attempt got one just now
        self._are_lifted = False
        self._moves = MAX_MOVES
        self._passed = MAX_PASSED
        self._known: Timeline | None = None
        #: Not on the timeline, and not followed by the future yet: ends, places, charges.
        self._news: list[tuple[Release | None, tuple[MemberPlan, ...], tuple[Charge, ...]]] = []
        self._future: Future | None = None
        self._lifted: Lifted | None = None

    # --- what may go first -----------------------------------------------------------------------
    def until(self, shape: Shape) -> int | None:
        """When an attempt of a shape that starts now has ended at the latest."""
        return end_if_started(shape, self._now, self._snapshot.run_times)

    def place_before(self, plan: ShapePlan, avoid: Collection[int] = ()) -> Plan | None:
        """Takes places for an attempt that has ended before the reservations start whose places it uses."""
        if not self.made:
            return None
        until = self.until(plan.shape)
        later, idle = ([], {}) if until is None else self._from(until)
        if not later or not self._gains(plan, idle) or not may_fit(self._ledger, plan):
            return None
        if self._lifted is None:
            self._lifted = Lifted(self._board, self._ledger, self._placer)
        found = self._lifted.place(plan, later, avoid)
        self._board.looks += self._lifted.board.looks  # as if it were looked at here
        self._lifted.board.looks = 0
        self._placer.cut_short = self._lifted.placer.cut_short
        if found is not None:
            self._board.change_members(found.members, -1)
        return found

    def _from(self, instant: int) -> tuple[list[Reservation], dict[str, int]]:
        known = self._later.get(instant)
        if known is None:
            later = [made for made in self.made if made.starts_at >= instant]
            idle: dict[str, int] = {}
            for made in later:
                for flavor, amount in self._idle[made.attempt_id].items():
                    idle[flavor] = idle.get(flavor, 0) + amount
            known = self._later[instant] = later, idle
        return known

    def _gains(self, plan: ShapePlan, idle: Mapping[str, int]) -> bool:
        """A cheap necessary test: what is free, and what is kept for them and idle, suffices in sum."""
        wanted = plan.lead.count * plan.lead.need.amount
        return any(self._board.free(name) + idle.get(name, 0) >= wanted for name in plan.lead.flavors)

    def admits(self, plan: ShapePlan, found: Plan, gone: Sequence[RunningView] = ()) -> bool:
        """True when those of the reservations that it would meet have their quota beside it, without those
        that are stopped for it."""
        if not self.made:
            return True
        until, parts = self.until(plan.shape), self._ledger.parts(found.charges)
        for instant, world in self._instants:
            if (until is None or instant < until) and not self._has_room(instant, world, parts, gone):
                return False
        return True

    def may_admit(self, plan: ShapePlan) -> bool:
        """A cheap necessary test: False where an attempt would delay one of them wherever it goes."""
        if not self.made:
            return True
        until, checks = self.until(plan.shape), plan.checks
        return all(
            world.passes(checks) for instant, world in self._instants if until is None or instant < until
        )

    def _has_room(self, instant: int, world: Ledger, parts: Parts, gone: Sequence[RunningView]) -> bool:
        if not gone:
            return world.takes(parts)
        given = self._given_back(instant, gone)
        world.add(given, -1)
        enough = world.takes(parts)
        world.add(given)
        return enough

    def _given_back(self, instant: int, gone: Sequence[RunningView]) -> list[Charge]:
        """What would still be charged at an instant, were these not stopped."""
        return [
            item
            for run in gone
            for item in run.charges
            if (end := latest_end(self._snapshot, run, self._now)) is None or end > instant
        ]

    def started(self, plan: ShapePlan, item: PendingItem, found: Plan) -> None:
        """Takes note of a placement."""
        until, parts = self.until(plan.shape), self._ledger.parts(found.charges)
        for instant, world in self._instants:
            if until is None or instant < until:
                world.take(parts)
        ends = None
        if until is not None:
            ends = Release(until, item.attempt_id, found.members, found.charges)
        self._follow(found.members, found.charges, ends)

    def grown(self, found: Plan) -> None:
        """Takes note of a member that joins a gang, of which nobody counts on the end."""
        for _, world in self._instants:
            world.add(found.charges)
        self._follow(found.members, found.charges, None)

    def held(self, hold: HoldView, gone: Sequence[RunningView] = ()) -> None:
        """Takes note of places that are kept for a preemptor, of which nobody knows how long it will run, and
        of those that are stopped for it."""
        for instant, world in self._instants:
            world.add(self._given_back(instant, gone), -1)
            world.add(hold.charges)
        self._at = {}  # whom it takes the place over from is still counted there
        self._future = self._lifted = None  # who ends for it, and what it takes over, changes too much

    def _follow(
        self, members: tuple[MemberPlan, ...], charges: tuple[Charge, ...], ends: Release | None
    ) -> None:
        """Whoever is asked next has to know of it; the future only if it is asked once more."""
        if self._lifted is not None:
            self._lifted.board.follow(members)
        self._news.append((ends, members, charges))
        if self._future is not None and self._future.is_moving:
            self._catch_up()

    def _catch_up(self) -> Timeline:
        if self._known is None:
            self._known = Timeline(self._snapshot, self._now)
        news, self._news = self._news, []
        for ends, members, charges in news:
            at = None if ends is None else self._known.add(ends)
            if self._future is not None:
                self._future.took(members, charges, at)
        return self._known

    # --- making them -------------------------------------------------------------------------------
    def reserve(self, plan: ShapePlan, item: PendingItem, most: int) -> Reservation | None:
        """A place for a blocked attempt, if its queue may have another one and an instant can be named."""
        self._last = None
        if self._tried >= MAX_TRIES:
            return None
        queue = plan.shape.queue
        if self._by_queue.get(queue, 0) >= most or not plan.roles or item.standby:
            return None
        tries = self._tries.get(queue, 0)
        if tries >= most + TRIES_BESIDE or not self._catch_up().releases:
            return None
        self._tries[queue], self._tried = tries + 1, self._tried + 1
        found = self._earliest(plan)
        if found is None:
            return None
        step, places = found
        at = self._catch_up().instant(step)
        shape = plan.shape
        made = Reservation(
            item.workload_id, item.attempt_id, shape.key, queue, shape.project, at,
            end_if_started(shape, at, self._snapshot.run_times), places.members, places.charges,
        )
        self._by_queue[queue] = self._by_queue.get(queue, 0) + 1
        self._last = shape.key
        self._keep(made, step)
        return made

    def goes_on(self, shape: Shape, most: int) -> bool:
        """True when the shape's last attempt got a reservation, and its queue may have another one."""
        return self._last == shape.key and self._by_queue.get(shape.queue, 0) < most

    def _first_step(self, plan: ShapePlan, timeline: Timeline) -> int | None:
        """Before it there is no place: what is free and what ends until then does not suffice in sum."""
        wanted = plan.lead.count * plan.lead.need.amount
        steps = []
        for name in plan.lead.flavors:
            lacking = wanted - self._board.free(name)
            steps.append(0 if lacking <= 0 else timeline.first_step(name, lacking))
        return min((step for step in steps if step is not None), default=None)

    def _earliest(self, plan: ShapePlan) -> tuple[int, Plan] | None:
        """The step of the timeline, and the places."""
        timeline = self._catch_up()
        first = self._first_step(plan, timeline)
        if first is None or self._moves <= 0 or timeline.counts[first] > self._passed:
            return None
        self._passed -= timeline.counts[first]
        if self._future is None:
            self._future = Future(self._board, self._ledger, self._placer, timeline, self.made)
        found, self._moves = self._future.earliest(plan, first, self._moves)
        self._board.looks += self._future.looks
        self._future.looks = 0
        self._placer.cut_short = self._future.cut_short
        return found

    def _keep(self, made: Reservation, step: int) -> None:
        parts = self._ledger.parts(made.charges)
        for instant, usage in self._instants:
            if made.runs_at(instant):
                usage.take(parts)
        self._worlds.append(self._at.get(made.starts_at) or self._world(made, step))
        self.made.append(made)
        flavors = amounts_of(made.members)
        free = {name: self._board.free(name) for name in flavors}
        self._board.change_members(made.members, -1)
        self._idle[made.attempt_id] = {name: free[name] - self._board.free(name) for name in flavors}
        self._later = {}
        ends = None
        if made.ends_at is not None:
            ends = Release(made.ends_at, made.attempt_id, made.members, made.charges)
        self._follow(made.members, made.charges, ends)

    def _world(self, made: Reservation, step: int) -> Ledger:
        """What is used at the instant of the first reservation at it."""
        assert self._future is not None
        world = Ledger(self._ledger.trees, self._future.usage_at(step))
        world.add(made.charges)
        for other in self.made:
            if other.starts_at > made.starts_at:
                world.add(other.charges, -1)
        self._instants.append((made.starts_at, world))
        self._at[made.starts_at] = world
        return world

    # --- in force and not --------------------------------------------------------------------------
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
            if found is None or not world.may_charge(found.charges):
                blocker = made
                break
        for made in applied:
            self._board.change_members(made.members, 1)
        return blocker

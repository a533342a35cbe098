"""Working copies beside those of a cycle: as they will be, and as if nothing were planned.

They are asked again and again, so they stay as the last question left them and are told what the cycle takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.board import Board
from steelyard.scheduling.cells import Uncounted
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.instant import instants
from steelyard.scheduling.later import Later
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan, may_fit
from steelyard.scheduling.quota import Usage
from steelyard.scheduling.timeline import Timeline
from steelyard.scheduling.views import Charge


class Future:
    """Moves along a timeline: what has ended by then is given back. What is planned is taken and charged.
    `ledger` has all that is charged before anything ends, `later` tells what is left of it."""

    def __init__(
        self, board: Board, ledger: Ledger, placer: Placer, timeline: Timeline, made: Iterable[Reservation]
    ) -> None:
        self.ledger = ledger.beside()
        for reservation in made:
            self.ledger.add(reservation.charges)
        self.later = Later(self.ledger, timeline.releases)
        self.timeline = timeline
        self.looks = 0
        self.cut_short = False
        self._sources = board, placer
        self._moving: Moving | None = None  # made when something is asked that is not counted
        self._instants = instants(board, placer, self.later)

    def earliest(self, plan: ShapePlan, first: int, most: int) -> tuple[tuple[int, Plan] | None, int]:
        """The first step from `first` on after which the gang fits, and where; a later one where the bound
        was met; None where it fits after none that was reached. Nothing stays taken. `most` bounds how many
        ends are given or taken back on the way from the first step on; what is left of it comes second."""
        counts = self.timeline.counts
        low, at, width, last = first - 1, first, 1, len(counts) - 1
        moves, before = most, counts[first]
        while True:
            moves, before = moves - abs(counts[at] - before), counts[at]
            found, left = self._fits_between(plan, low, at, moves)
            if found is not None:
                return found, left
            if at == last or moves <= 0:
                return None, moves
            low, at, width = at, min(last, at + width), width * 2

    def _fits_between(
        self, plan: ShapePlan, low: int, high: int, moves: int
    ) -> tuple[tuple[int, Plan] | None, int]:
        """None where the gang does not fit after a step, else the first after `low` after which it does.

        Where what fits at an instant fits later, too, the last step is looked at last, and only if it does
        not fit before: what would have been looked at counts as if it were.
        """
        if high - low < 2 or moves <= 0 or not self._keeps_fitting(plan):
            found = self._attempt(plan, high)
            if found is None:
                return None, moves
            return self._narrowed(plan, low, high, moves, found)
        if not self._is_let(plan, high):
            return None, moves
        looks = self.looks
        narrowed, left = self._narrowed(plan, low, high, moves, None)
        if narrowed is not None:
            self.looks += plan.lead.count
            return narrowed, left
        looks, cut_short = self.looks - looks, self.cut_short
        found = self._attempt(plan, high)
        if found is None:
            self.looks -= looks
            return None, moves
        self.cut_short = cut_short
        return (high, found), left

    def _narrowed(
        self, plan: ShapePlan, low: int, high: int, moves: int, found: Plan | None
    ) -> tuple[tuple[int, Plan] | None, int]:
        """The first step between two after which the gang fits, as it does after the second (`found`)."""
        counts = self.timeline.counts
        before = counts[high]
        while high - low > 1 and moves > 0:
            middle = (low + high) // 2
            moves, before = moves - abs(counts[middle] - before), counts[middle]
            earlier = self._attempt(plan, middle)
            if earlier is None:
                low = middle
            else:
                high, found = middle, earlier
        return None if found is None else (high, found), moves

    def usage_at(self, step: int) -> Mapping[str, Usage]:
        """What will be used after a step, with all that is planned and has not ended by then."""
        return self.later.usage(self.timeline.counts[step])

    def took(self, members: Sequence[MemberPlan], charges: Iterable[Charge], at: int | None) -> None:
        """The cycle has taken this. `at`: where its end was put on the timeline."""
        parts = self.ledger.parts(charges)
        self.ledger.take(parts)
        self.later.took(parts, self.timeline.releases, at)
        if self._instants is not None:
            try:
                self._instants.took(members, at)
            except Uncounted:
                self._instants = None
        if self._moving is not None:
            self._moving.took(members, at)

    def _attempt(self, plan: ShapePlan, step: int) -> Plan | None:
        """What the limits say first: places are given back only where they let it start."""
        if not self._is_let(plan, step):
            return None
        count = self.timeline.counts[step]
        if self._instants is not None and plan.shape.topology is None:
            try:
                found = self._instants.place(plan, self.timeline.releases, count)
            except Uncounted:
                self._instants = None
            else:
                self.looks, self._instants.looks = self.looks + self._instants.looks, 0
                self.cut_short = self._instants.cut_short
                return found
        moving = self.moving
        found = moving.place(plan, count)
        self.looks, moving.board.looks = self.looks + moving.board.looks, 0
        self.cut_short = moving.placer.cut_short
        return found

    def _is_let(self, plan: ShapePlan, step: int) -> bool:
        self.later.at(self.timeline.counts[step])
        self.cut_short = False
        return may_fit(self.later, plan)

    def _keeps_fitting(self, plan: ShapePlan) -> bool:
        return self._instants is not None and self._instants.keeps_fitting(plan)

    @property
    def is_moving(self) -> bool:
        """Whether there is a copy of the board, that has to follow each step of the other."""
        return self._moving is not None

    @property
    def moving(self) -> Moving:
        """The copy of the board that things are given back on."""
        if self._moving is None:
            board, placer = self._sources
            self._moving = Moving(board, placer, self.later, self.timeline)
        return self._moving


class Moving:
    """A board that moves along a timeline."""

    def __init__(self, board: Board, placer: Placer, ledger: Ledger, timeline: Timeline) -> None:
        self.board = board.beside()
        self.placer = placer.beside(self.board, ledger)
        self.timeline = timeline
        self.passed = 0  # how many have given back their places

    def place(self, plan: ShapePlan, count: int) -> Plan | None:
        """Where a gang that the limits let start goes when so many have ended. Nothing stays taken."""
        self.until(count)
        found = self.placer.place_let(plan, fresh=True)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

    def until(self, count: int) -> None:
        """Gives back, or takes back, what ends on the way to an end."""
        before, self.passed = self.passed, count
        sign = 1 if count > before else -1
        for release in self.timeline.releases[min(before, count) : max(before, count)]:
            self.board.change_members(release.members, sign)

    def took(self, members: Sequence[MemberPlan], at: int | None) -> None:
        """The cycle has taken this. `at`: where its end was put on the timeline."""
        self.board.follow(members)
        if at is not None and at < self.passed:
            self.passed += 1
            self.board.change_members(members, 1)


class Lifted:
    """As if the places of some reservations were not kept."""

    def __init__(self, board: Board, ledger: Ledger, placer: Placer) -> None:
        self.board = board.beside()
        self.placer = placer.beside(self.board, ledger)
        self._some: dict[int, Reservation] = {}
        self._asked: Sequence[Reservation] = ()

    def place(self, plan: ShapePlan, some: Sequence[Reservation], avoid: Collection[int]) -> Plan | None:
        """Where an attempt that the limits let start could go beside all but these. Nothing stays taken. It
        may be asked about the very same list, which must not have changed then."""
        if some is not self._asked:
            wanted = {made.attempt_id: made for made in some}
            for key in self._some.keys() - wanted.keys():
                self.board.change_members(self._some[key].members, -1)
            for key in wanted.keys() - self._some.keys():
                self.board.change_members(wanted[key].members, 1)
            self._some, self._asked = wanted, some
        found = self.placer.place_let(plan, fresh=True, avoid=avoid)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

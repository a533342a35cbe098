"""Working copies beside those of a cycle: as they will be, and as if nothing were planned.

They are asked again and again, so they stay as the last question left them and are told what the cycle takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.board import Board
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.later import Later
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan
from steelyard.scheduling.quota import Usage
from steelyard.scheduling.timeline import Timeline
from steelyard.scheduling.views import Charge


class Future:
    """Moves along a timeline: what has ended by then is given back. What is planned is taken and charged.
    `ledger` has all that is charged before anything ends, `later` tells what is left of it."""

    def __init__(
        self, board: Board, ledger: Ledger, placer: Placer, timeline: Timeline, made: Iterable[Reservation]
    ) -> None:
        self.board = board.beside()
        self.ledger = ledger.beside()
        for reservation in made:
            self.ledger.add(reservation.charges)
        self.later = Later(self.ledger, timeline.releases)
        self.placer = placer.beside(self.board, self.later)
        self.timeline = timeline
        self._passed = 0  # how many have given back their places

    def earliest(self, plan: ShapePlan, first: int, most: int) -> tuple[tuple[int, Plan] | None, int]:
        """The first step from `first` on after which the gang fits, and where; a later one where the bound
        was met; None where it fits after none that was reached. Nothing stays taken. `most` bounds how many
        ends are given or taken back on the way from the first step on; what is left of it comes second."""
        counts = self.timeline.counts
        low, at, width, last = first - 1, first, 1, len(counts) - 1
        moves, before = most, counts[first]
        found = None
        while found is None:
            moves, before = moves - abs(counts[at] - before), counts[at]
            found = self._attempt(plan, at)
            if found is None:
                if at == last or moves <= 0:
                    return None, moves
                low, at, width = at, min(last, at + width), width * 2
        high = at
        while high - low > 1 and moves > 0:
            middle = (low + high) // 2
            moves, before = moves - abs(counts[middle] - before), counts[middle]
            earlier = self._attempt(plan, middle)
            if earlier is None:
                low = middle
            else:
                high, found = middle, earlier
        return (high, found), moves

    def usage_at(self, step: int) -> Mapping[str, Usage]:
        """What will be used after a step, with all that is planned and has not ended by then."""
        return self.later.usage(self.timeline.counts[step])

    def took(self, members: Sequence[MemberPlan], charges: Iterable[Charge], at: int | None) -> None:
        """The cycle has taken this. `at`: where its end was put on the timeline."""
        self.board.follow(members)
        parts = self.ledger.parts(charges)
        self.ledger.take(parts)
        self.later.took(parts, self.timeline.releases, at)
        if at is not None and at < self._passed:
            self._passed += 1
            self.board.change_members(members, 1)

    def _attempt(self, plan: ShapePlan, step: int) -> Plan | None:
        """What the limits say first: places are given back only where they let it start."""
        count = self.timeline.counts[step]
        self.later.at(count)
        if not self.placer.may_fit(plan):
            return None
        self._place_until(count)
        found = self.placer.place(plan, fresh=True)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

    def _place_until(self, count: int) -> None:
        before, self._passed = self._passed, count
        sign = 1 if count > before else -1
        for release in self.timeline.releases[min(before, count) : max(before, count)]:
            self.board.change_members(release.members, sign)


class Lifted:
    """As if the places of some reservations were not kept."""

    def __init__(self, board: Board, ledger: Ledger, placer: Placer) -> None:
        self.board = board.beside()
        self.placer = placer.beside(self.board, ledger)
        self._some: dict[int, Reservation] = {}

    def place(self, plan: ShapePlan, some: Iterable[Reservation], avoid: Collection[int]) -> Plan | None:
        """Where an attempt could go beside all but these. Nothing stays taken."""
        wanted = {made.attempt_id: made for made in some}
        for key in self._some.keys() - wanted.keys():
            self.board.change_members(self._some[key].members, -1)
        for key in wanted.keys() - self._some.keys():
            self.board.change_members(wanted[key].members, 1)
        self._some = wanted
        found = self.placer.place(plan, fresh=True, avoid=avoid)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

"""Working copies beside those of a cycle: as they will be, and as if nothing were planned.

They are asked again and again, so they stay as the last question left them and are told what the cycle takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from steelyard.model.workloads import MemberPlan
from steelyard.scheduling.board import Board
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan
from steelyard.scheduling.quota import Usage
from steelyard.scheduling.tariff import Sum
from steelyard.scheduling.timeline import Ending, Timeline
from steelyard.scheduling.views import Charge, RunningView


class Future:
    """Moves along a timeline: what has ended by then is given back. What is planned is taken and charged."""

    def __init__(
        self, board: Board, ledger: Ledger, placer: Placer, timeline: Timeline, made: Iterable[Reservation]
    ) -> None:
        self.board = board.beside()
        self.ledger = ledger.beside()
        self.placer = placer.beside(self.board, self.ledger)
        self.timeline = timeline
        self._sums: dict[tuple[int, int], tuple[list[Sum], list[Ending]]] = {}
        self._passed = self._charged = 0  # how many have given back their places, and what they are charged
        for reservation in made:
            self.ledger.add(reservation.charges)

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
        self._charge_until(self.timeline.counts[step])
        return self.ledger.worlds[-1]

    def took(self, members: Sequence[MemberPlan], charges: Iterable[Charge], at: int | None) -> None:
        """The cycle has taken this. `at`: where its end was put on the timeline."""
        self.board.follow(members)
        self.ledger.add(charges)
        if at is not None:
            for stretch in [stretch for stretch in self._sums if stretch[1] > at]:
                del self._sums[stretch]
        if at is not None and at < self._passed:
            self._passed += 1
            self.board.change_members(members, 1)
        if at is not None and at < self._charged:
            self._charged += 1
            self.ledger.add(charges, -1)

    def _attempt(self, plan: ShapePlan, step: int) -> Plan | None:
        """What the limits say first: places are given back only where they let it start."""
        count = self.timeline.counts[step]
        self._charge_until(count)
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

    def _charge_until(self, count: int) -> None:
        before, self._charged = self._charged, count
        if before == count:
            return
        sign, stretch = (1, (before, count)) if count > before else (-1, (count, before))
        known = self._sums.get(stretch)
        if known is None:
            known = self._sums[stretch] = self._summed(*stretch)
        together, apart = known
        self.ledger.add_sums(together, -sign)
        for release in apart:
            self._end(release, sign)

    def _summed(self, start: int, end: int) -> tuple[list[Sum], list[Ending]]:
        """What is charged for those of a stretch of the timeline, and who has to be looked at alone."""
        ending, rest = self.ledger.ending, self.ledger.rest
        together: list[Iterable[Charge]] = []
        apart: list[Ending] = []
        for release in self.timeline.releases[start:end]:
            if release.attempt_id in ending or release.attempt_id in rest:
                apart.append(release)
            else:
                together.append(release.charges)
        return self.ledger.sums(together), apart

    def _end(self, run: Ending, sign: int) -> None:
        """One whose places somebody holds already counts in one of the ledger's worlds only."""
        assert isinstance(run, RunningView)
        if sign > 0:
            self.ledger.remove(run)
        else:
            self.ledger.reinstate(run)


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

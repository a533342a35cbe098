"""The working copies of a cycle as they will be: what has ended by then is given back, and put back again."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.scheduling.board import Board
from steelyard.scheduling.decisions import Reservation
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.placement import Placer, Plan, ShapePlan
from steelyard.scheduling.timeline import Release, Timeline
from steelyard.scheduling.views import Charge


class Future:
    """Moves along a timeline. `moves` bounds how many ends are given or taken back while it searches, beyond
    those before the first step that it looks at."""

    def __init__(
        self,
        board: Board,
        ledger: Ledger,
        placer: Placer,
        timeline: Timeline,
        made: Iterable[Reservation],
        moves: int,
    ) -> None:
        self.board = board
        self.ledger = ledger
        self.placer = placer
        self.timeline = timeline
        self.moves = moves
        self._made = list(made)
        self._passed = 0
        for reservation in self._made:
            ledger.add(reservation.charges)

    def earliest(self, plan: ShapePlan, first: int) -> tuple[int, Plan] | None:
        """The first step from `first` on after which the gang fits, and where; a later one where the bound
        was met; None where it fits after none that was reached. Nothing stays taken."""
        low, at, width, last = first - 1, first, 1, len(self.timeline.counts) - 1
        self.moves += self.timeline.counts[first]
        found = None
        while found is None:
            found = self._attempt(plan, at)
            if found is None:
                if at == last or self.moves <= 0:
                    return None
                low, at, width = at, min(last, at + width), width * 2
        high = at
        while high - low > 1 and self.moves > 0:
            middle = (low + high) // 2
            earlier = self._attempt(plan, middle)
            if earlier is None:
                low = middle
            else:
                high, found = middle, earlier
        return high, found

    def _attempt(self, plan: ShapePlan, step: int) -> Plan | None:
        self._to(self.timeline.counts[step])
        found = self.placer.place(plan, fresh=True)
        if found is not None:
            self.board.change_members(found.members, 1)
        return found

    def _to(self, count: int) -> None:
        before, self._passed = self._passed, count
        self.moves -= abs(count - before)
        sign = 1 if count > before else -1
        moved = self.timeline.releases[min(before, count) : max(before, count)]
        net: dict[tuple[str, str, str], int] = {}
        for release in moved:
            self.board.change_members(release.members, sign)
            if release.attempt_id in self.ledger.ending:
                self._end(release, sign)
                continue
            for item in release.charges:
                key = (item.tree, item.node, item.subject)
                net[key] = net.get(key, 0) + item.quantity
        # charges at one node are linear: many are released as one
        self.ledger.add((Charge(*key, quantity) for key, quantity in net.items()), -sign)

    def _end(self, release: Release, sign: int) -> None:
        """One whose places somebody holds already counts in one of the ledger's worlds only."""
        assert release.run is not None
        if sign > 0:
            self.ledger.remove(release.run)
        else:
            self.ledger.reinstate(release.run)

    def restore(self) -> None:
        """As it was before."""
        self._to(0)
        for reservation in self._made:
            self.ledger.add(reservation.charges, -1)

"""Who takes which model: the assignment of waiting work to free devices with the most progress.

A claim is a unit of work with a value on each kind of device: its speed there, measured against its own best
one. So each kind goes to the work for which the others are worst, whatever work is fast in itself. The sum of
values is the largest there is (a linear assignment, by augmenting one claim after the other along the best
exchange); of equal answers the claims that came first are served.
"""

from __future__ import annotations

from collections.abc import Sequence

#: What no exchange can gain.
_NEVER = -(2**62)
#: Values are told apart before ranks are.
_RANKS = 2**24
#: At most so many claims are assigned at once: the sum of their ranks stays below `_RANKS`.
MOST_CLAIMS = 4096


def assign(values: Sequence[Sequence[int]], room: Sequence[int]) -> list[int | None]:
    """For each claim, first come first, the kind that it takes, or None.

    `values[claim][kind]` is a whole number; 0 or less: the claim can't use that kind. `room[kind]` is how
    many claims it has room for. Raises ValueError for more than `MOST_CLAIMS` claims.
    """
    if len(values) > MOST_CLAIMS:
        raise ValueError(f"{len(values)} claims at once")
    work = _Assignment(values, room)
    for claim in range(len(values)):
        work.add(claim)
    return work.taken


class _Assignment:
    """An optimum over the claims added so far."""

    def __init__(self, values: Sequence[Sequence[int]], room: Sequence[int]) -> None:
        count = len(values)
        self.values = [
            [value * _RANKS + count - rank if value > 0 else _NEVER for value in row]
            for rank, row in enumerate(values)
        ]
        self.left = list(room)
        self.kinds = range(len(room))
        self.members: list[list[int]] = [[] for _ in room]
        self.taken: list[int | None] = [None] * count
        # the best claim of a kind to move to another (index: kind), or to nothing (last); None: look again
        self._moves: list[list[tuple[int, int]] | None] = [None for _ in room]

    def add(self, claim: int) -> None:
        """Takes the claim in where that gains most: on free room, by moving others, or in another's place."""
        gains = list(self.values[claim])
        before: list[int | None] = [None] * len(gains)  # the kind whose claim moves on to this one
        for _ in self.kinds:
            if not self._relax(gains, before):
                break
        best, end, leaves = 0, None, False
        for kind in self.kinds:
            if gains[kind] <= _NEVER // 2:
                continue
            if self.left[kind] > 0 and gains[kind] > best:
                best, end, leaves = gains[kind], kind, False
            elif self.left[kind] <= 0 and self.members[kind]:
                total = gains[kind] + self._moves_of(kind)[-1][0]
                if total > best:
                    best, end, leaves = total, kind, True
        if end is not None:
            self._apply(claim, end, before, leaves)

    def _relax(self, gains: list[int], before: list[int | None]) -> bool:
        changed = False
        for kind in self.kinds:
            if gains[kind] <= _NEVER // 2 or self.left[kind] > 0 or not self.members[kind]:
                continue
            for other, (gain, _) in zip(self.kinds, self._moves_of(kind), strict=False):
                total = gains[kind] + gain
                if other != kind and total > gains[other] and not _is_before(before, other, kind):
                    gains[other], before[other] = total, kind
                    changed = True
        return changed

    def _moves_of(self, kind: int) -> list[tuple[int, int]]:
        known = self._moves[kind]
        if known is None:
            found = [(_NEVER, -1)] * (len(self.left) + 1)
            for claim in self.members[kind]:
                own = self.values[claim]
                here = own[kind]
                for other in self.kinds:
                    gain = own[other] - here
                    if gain > found[other][0] and own[other] > 0:
                        found[other] = (gain, claim)
                if -here > found[-1][0]:
                    found[-1] = (-here, claim)
            known = self._moves[kind] = found
        return known

    def _apply(self, claim: int, end: int, before: list[int | None], leaves: bool) -> None:
        if leaves:
            self._take_out(end, self._moves_of(end)[-1][1])
        kind = end
        moved: list[tuple[int, int, int]] = []
        while (source := before[kind]) is not None:
            moved.append((self._moves_of(source)[kind][1], source, kind))
            kind = source
        for other, source, target in moved:
            self._take_out(source, other)
            self._put(target, other)
        self._put(kind, claim)

    def _put(self, kind: int, claim: int) -> None:
        self.members[kind].append(claim)
        self.taken[claim] = kind
        self.left[kind] -= 1
        self._moves[kind] = None

    def _take_out(self, kind: int, claim: int) -> None:
        self.members[kind].remove(claim)
        self.taken[claim] = None
        self.left[kind] += 1
        self._moves[kind] = None


def _is_before(before: Sequence[int | None], start: int, kind: int) -> bool:
    """True when `start` stands on the way by which `kind` is reached."""
    at: int | None = start
    way: int | None = kind
    while way is not None:
        if way == at:
            return True
        way = before[way]
    return False

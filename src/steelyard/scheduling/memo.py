"""What earlier cycles made ready of shapes, for as long as it rests on the same: a matter of speed alone.

A memo goes along with the snapshots that follow each other. What is kept is told apart by the identity of
what it was made of, which the memo holds on to; a trial beside it (a what-if) only finds it empty.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from steelyard.model.workloads import Shape

T = TypeVar("T")
#: Shapes kept; when there are more, all are forgotten.
MOST_KEPT = 20_000


class Memo(Generic[T]):
    """By shape. Two threads may use one: what they put in is the same."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: tuple[tuple[object, ...], dict[str, tuple[Shape, T]]] = ((), {})

    def of(self, basis: tuple[object, ...]) -> dict[str, tuple[Shape, T]]:
        """What was made on the very same basis, by the shapes' keys; to be added to."""
        known, kept = self._kept
        same = len(known) == len(basis) and all(map(_is_same, known, basis))
        if not same or len(kept) > MOST_KEPT:
            kept = {}
            self._kept = (basis, kept)
        return kept


def _is_same(known: object, now: object) -> bool:
    """A set is the same when it is equal; anything else when it is that very object."""
    return known is now or (isinstance(known, frozenset) and known == now)

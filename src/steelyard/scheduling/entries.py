"""Sorted entries of which many versions share most: in chunks, of which a version copies what it changes."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Generic, TypeAlias, TypeVar, overload

V = TypeVar("V")
Order: TypeAlias = tuple[int, int, int]
#: Entries of a chunk; it is split when it has twice as many.
SIZE = 128


class Entries(Sequence[tuple[Order, V]], Generic[V]):
    """Immutable. No two have the same order."""

    __slots__ = ("_chunks", "_lasts", "_size")

    def __init__(self, entries: Sequence[tuple[Order, V]] = (), size: int = SIZE) -> None:
        """`entries` are in order."""
        self._chunks = [list(entries[at : at + size]) for at in range(0, len(entries), size)]
        self._lasts = [chunk[-1][0] for chunk in self._chunks]
        self._size = len(entries)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[tuple[Order, V]]:
        return chain.from_iterable(self._chunks)

    @overload
    def __getitem__(self, at: int) -> tuple[Order, V]: ...
    @overload
    def __getitem__(self, at: slice) -> list[tuple[Order, V]]: ...
    def __getitem__(self, at: int | slice) -> tuple[Order, V] | list[tuple[Order, V]]:
        """A slice costs what lies before it, too."""
        if isinstance(at, slice):
            start, stop, step = at.indices(self._size)
            return list(islice(self, start, stop, step)) if step > 0 else list(self)[at]
        at = at + self._size if at < 0 else at
        for chunk in self._chunks if at >= 0 else ():
            if at < len(chunk):
                return chunk[at]
            at -= len(chunk)
        raise IndexError(at)


class Draft(Generic[V]):
    """The next version of some entries, while it is made."""

    __slots__ = ("_chunks", "_lasts", "_limit", "_own", "_size")

    def __init__(self, before: Entries[V], size: int = SIZE) -> None:
        self._chunks = list(before._chunks)
        self._lasts = list(before._lasts)
        self._size = before._size
        self._limit = 2 * size
        self._own: set[int] = set()  # ids of the chunks that are its own

    def add(self, order: Order, value: V) -> None:
        """One more."""
        self._size += 1
        at = min(bisect_left(self._lasts, order), len(self._lasts) - 1)
        if at < 0:
            self._put(0, 0, [[(order, value)]])
            return
        chunk = self._mine(at)
        insort(chunk, (order, value), key=_order)
        self._lasts[at] = chunk[-1][0]
        if len(chunk) > self._limit:
            middle = len(chunk) // 2
            self._put(at, at + 1, [chunk[:middle], chunk[middle:]])

    def take_out(self, order: Order) -> None:
        """The one with this order, if it is there."""
        at = bisect_left(self._lasts, order)
        if at == len(self._lasts):
            return
        where = bisect_left(self._chunks[at], order, key=_order)
        if self._chunks[at][where][0] != order:
            return
        self._size -= 1
        chunk = self._mine(at)
        del chunk[where]
        if chunk:
            self._lasts[at] = chunk[-1][0]
        else:
            self._put(at, at + 1, [])

    def made(self) -> Entries[V]:
        """The version. Nothing is changed afterwards."""
        entries: Entries[V] = object.__new__(Entries)
        entries._chunks, entries._lasts, entries._size = self._chunks, self._lasts, self._size
        return entries

    def _mine(self, at: int) -> list[tuple[Order, V]]:
        chunk = self._chunks[at]
        if id(chunk) not in self._own:
            chunk = self._chunks[at] = list(chunk)
            self._own.add(id(chunk))
        return chunk

    def _put(self, start: int, stop: int, chunks: Iterable[list[tuple[Order, V]]]) -> None:
        made = list(chunks)
        self._own.difference_update(id(chunk) for chunk in self._chunks[start:stop])  # an id may come again
        self._own.update(id(chunk) for chunk in made)
        self._chunks[start:stop] = made
        self._lasts[start:stop] = [chunk[-1][0] for chunk in made]


def _order(entry: tuple[Order, V]) -> Order:
    return entry[0]

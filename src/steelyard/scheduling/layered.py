"""An immutable mapping of which many versions share most: a base, and what this version has changed.

Making a version costs what has changed since the base, not what there is; when that grows beyond a part of
the base, it becomes a base of its own. What is derived from the entries is kept by subclasses in `_derive`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, Generic, Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")

#: A base takes this many changes, or this part of its size, before it is made anew.
LEAST_CHANGES, PART = 256, 8


class Layered(Mapping[K, V], Generic[K, V]):
    """Values are never None. Reads as a dict does; `with_` makes the next version."""

    __slots__ = ("_base", "_over", "_size")

    def __init__(self, entries: Mapping[K, V]) -> None:
        self._base: dict[K, V] = dict(entries)
        self._over: dict[K, V | None] = {}  # None: no longer there
        self._size = len(self._base)

    def with_(self, changed: Mapping[K, V], gone: Collection[K] = ()) -> Self:
        """The version with these entries set, and those taken out."""
        if not changed and not gone:
            return self
        made = object.__new__(type(self))
        over: dict[K, V | None] = dict(self._over)
        size = self._size
        for key in gone:
            if key in self:
                over[key] = None
                size -= 1
        for key, value in changed.items():
            if self._of(over, key) is None:
                size += 1
            over[key] = value
        made._size = size
        made._base, made._over = self._base, over
        if len(over) > max(LEAST_CHANGES, len(self._base) // PART):
            base: dict[K, V] = dict(self._base)
            for key, value_or_none in over.items():
                if value_or_none is None:
                    base.pop(key, None)
                else:
                    base[key] = value_or_none
            made._base, made._over = base, {}
        self._derive(made, changed, gone)
        return made

    def changed_since(self, before: Self) -> set[K] | None:
        """The keys of entries that are not those of another version; None: any may be."""
        if before is self:
            return set()
        if before._base is not self._base:
            return None
        keys = self._over.keys() | before._over.keys()
        return {key for key in keys if self.get(key) is not before.get(key)}

    def _of(self, over: Mapping[K, V | None], key: K) -> V | None:
        return over[key] if key in over else self._base.get(key)

    def _derive(self, made: Self, changed: Mapping[K, V], gone: Collection[K]) -> None:
        """Sets what subclasses derive of the entries, out of this version's and the changes."""

    def __getitem__(self, key: K) -> V:
        if key in self._over:
            found = self._over[key]
            if found is None:
                raise KeyError(key)
            return found
        return self._base[key]

    def get(self, key: K, default: Any = None) -> Any:
        """As of a dict; the one of `Mapping` is several times slower."""
        found = self._over[key] if key in self._over else self._base.get(key)
        return default if found is None else found

    def __contains__(self, key: object) -> bool:
        over = self._over
        return over[key] is not None if key in over else key in self._base

    def __iter__(self) -> Iterator[K]:
        over = self._over
        if not over:
            yield from self._base
            return
        for key in self._base:
            if over.get(key, self) is not None:
                yield key
        for key, value in over.items():
            if value is not None and key not in self._base:
                yield key

    def __len__(self) -> int:
        return self._size

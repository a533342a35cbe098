"""The difference of two documents' bodies as a list of changed paths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """One changed path (`spec.limits[0].nominal`); None stands for "not there"."""

    path: str
    before: Any
    after: Any


def changes(before: Any, after: Any, path: str) -> list[Change]:
    """Changed leaves between two JSON values, in path order of the keys."""
    return list(_changes(before, after, path))


def _changes(before: Any, after: Any, path: str) -> Iterator[Change]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from _changes(before.get(key), after.get(key), f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            older = before[index] if index < len(before) else None
            newer = after[index] if index < len(after) else None
            yield from _changes(older, newer, f"{path}[{index}]")
    elif before != after or type(before) is not type(after):
        yield Change(path, before, after)

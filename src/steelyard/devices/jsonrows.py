"""Devices of a JSON output, one object each: which keys tell what, and when an object is proven whole.

An object that was cut is no JSON, so a whole one lacks only what its release does not print: keys that
every release has are needed, the others may be missing and are then unknown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from steelyard.devices.csvrows import IDENTITY, Cell, Signs, Value, no_signs, with_values
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import UnreadableError

_MISSING = object()
_KEPT = 2_000  # characters of an object's text before it is cut to a kept line


@dataclass(frozen=True, slots=True)
class Field:
    """Where in an object something stands, the name of what it tells, and the form of its text."""

    name: str
    path: tuple[str, ...]
    read: Cell
    needed: bool = True


Extra: TypeAlias = Callable[[object], Iterable[tuple[str, Value]]]


def nothing_more(_: object) -> Iterable[tuple[str, Value]]:
    """For objects of which nothing is told but what their fields say."""
    return ()


def _under(value: object, path: Sequence[str]) -> object:
    for name in path:
        if not isinstance(value, dict):
            return _MISSING
        value = next((v for k, v in value.items() if isinstance(k, str) and k.strip() == name), _MISSING)
    return value


def _read(field: Field, item: object) -> Value:
    """The value of a field. Raises UnreadableError where it is needed and missing, or of another form."""
    found = _under(item, field.path)
    if found is None or (found is _MISSING and not field.needed):
        return None
    if not isinstance(found, str):
        raise UnreadableError(" / ".join(field.path))
    return field.read(found)


def read_object(
    item: object, base: Reading, fields: Sequence[Field], signs: Signs = no_signs, extra: Extra = nothing_more
) -> Reading | Problem:
    """One object as a reading; incomplete where it tells who it is but not all the rest, else a problem.

    `extra` makes further values of the object; it may raise UnreadableError.
    """
    line = kept(json.dumps(item, ensure_ascii=False)[:_KEPT])
    values: list[tuple[str, Value]] = []
    bad = ""
    for field in fields:
        try:
            values.append((field.name, _read(field, item)))
        except UnreadableError:
            bad = bad or " / ".join(field.path)
    try:
        more = list(extra(item))
    except UnreadableError as error:
        more, bad = [], bad or str(error)
    base = replace(base, line=line)
    if not bad:
        reading = with_values(base, (*values, *more))
        return judged(reading, signs(reading))
    identity = [(name, value) for name, value in values if name in IDENTITY and value is not None]
    if all(name == "model" for name, _ in identity):
        return Problem(ProblemCode.ROW_INCOMPLETE, line)
    return incomplete(with_values(base, identity), f"{bad}: {line}")


def read_objects(
    items: Iterable[object],
    base: Reading,
    fields: Sequence[Field],
    signs: Signs = no_signs,
    extra: Extra = nothing_more,
) -> Parsed:
    """Every object as a reading or a problem."""
    readings, problems = [], []
    for item in items:
        found = read_object(item, base, fields, signs, extra)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        readings.append(found)
        if not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, found.line))
    return Parsed(readings=tuple(readings), problems=tuple(problems))

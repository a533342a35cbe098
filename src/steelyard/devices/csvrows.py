"""Rows of csv as a query's columns ask for them: how each cell is read, and when a row is proven whole.

A row is whole when its line has an end, it has exactly the columns asked for, and each cell is of the form
that its column has, its unit included. So neither a shifted nor a cut row gives a figure. What a row's
beginning tells of who the device is stays, as long as two cells in a row fit their columns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from steelyard.devices.output import Line, Output
from steelyard.devices.reading import (
    PROBLEMS_MAX,
    READINGS_MAX,
    Parsed,
    Problem,
    ProblemCode,
    Reading,
    incomplete,
    judged,
    kept,
)
from steelyard.devices.text import (
    UnreadableError,
    celsius,
    csv_cells,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    whole,
)
from steelyard.model.health import DeviceHolder, Sign

Value: TypeAlias = str | int | tuple[DeviceHolder, ...] | None
Cell: TypeAlias = Callable[[str], Value]

IDENTITY = frozenset({"index", "host_index", "module", "uuid", "serial", "pci", "model"})
_OF_READING = frozenset(one.name for one in fields(Reading))
_ANCHORS = 2  # cells at a row's beginning that must fit before it is believed who the row is of
_CELL_MAX = 200
_UUID = re.compile(r"[A-Za-z0-9]{1,8}(?:-[A-Za-z0-9]{1,16}){2,8}")
_NAME = re.compile(r"[A-Za-z][^,|\"]{0,119}")
_SERIAL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{3,63}")
_ADDRESS = re.compile(r"[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_VERSION = re.compile(r"[A-Za-z0-9_]{0,16}[0-9]+(?:\.[0-9A-Za-z]+)+(?:-[A-Za-z0-9.]+)*")


@dataclass(frozen=True, slots=True)
class Column:
    """A column that was asked for: the field of a reading (or the name among its `other`), and its form."""

    name: str
    read: Cell


def number(text: str) -> int:
    """A number that is always there: an index, a module. Raises UnreadableError."""
    found = whole(text)
    if found is None:
        raise UnreadableError(text[:80])
    return found


def _written(text: str) -> str | None:
    """The cell's text; None where the tool says that it does not know. A blank cell is no answer."""
    if not text.strip() or len(text) > _CELL_MAX:
        raise UnreadableError(text[:80])
    return known(text)


def _form(pattern: re.Pattern[str]) -> Cell:
    def read(text: str) -> Value:
        plain = _written(text)
        if plain is not None and not pattern.fullmatch(plain):
            raise UnreadableError(text[:80])
        return plain

    return read


def _with_unit(read: Callable[[str], int | None], pattern: str) -> Cell:
    form = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,6})? ?(?:" + pattern + ")")

    def strict(text: str) -> Value:
        plain = _written(text)
        if plain is not None and not form.fullmatch(plain):
            raise UnreadableError(text[:80])
        return None if plain is None else read(plain)

    return strict


def _certain(read: Callable[[str], str | None]) -> Cell:
    def strict(text: str) -> Value:
        found = read(text)
        if found is None:
            raise UnreadableError(text[:80])
        return found

    return strict


def count(text: str) -> int | None:
    """A bare number, or None where the tool says that it does not know. Raises UnreadableError."""
    plain = _written(text)
    return None if plain is None else whole(plain)


def full_address(text: str) -> str | None:
    """A bus address with domain and function, and nothing behind it. Raises UnreadableError."""
    plain = _written(text)
    if plain is not None and not _ADDRESS.fullmatch(plain):
        raise UnreadableError(text[:80])
    return pci(plain)


def on_or_off(text: str) -> bool | None:
    """What a mode is set to; None where it is not known or neither of the two. Raises nothing."""
    return {"enabled": True, "enable": True, "disabled": False, "disable": False}.get(text.strip().lower())


def one_of(*words: str) -> Cell:
    """One of a closed list of words, as written. Raises UnreadableError for another."""

    def read(text: str) -> Value:
        if text.strip() not in words:
            raise UnreadableError(text[:80])
        return known(text)

    return read


name = _form(_NAME)
uuid = _form(_UUID)
serial = _form(_SERIAL)
version = _form(_VERSION)
address = _certain(full_address)
mib_written = _with_unit(mib, "MiB|MB|M")
kib_written = _with_unit(mib, "KBytes|KiB|KB")
watts_written = _with_unit(milliwatts, "W")
percent_written = _with_unit(percent, "%")
celsius_written = _with_unit(celsius, "C|°C|℃")
mib_bare = _with_unit(mib, "")
percent_bare = _with_unit(percent, "")
celsius_bare = _with_unit(celsius, "")
watts_bare = _with_unit(milliwatts, "")


def fitting(cells: Sequence[str], columns: Sequence[Column]) -> list[Value | UnreadableError]:
    """What each cell says in the column that stands at its place."""
    found: list[Value | UnreadableError] = []
    for cell, column in zip(cells, columns, strict=False):
        try:
            found.append(column.read(cell))
        except UnreadableError as error:
            found.append(error)
    return found


def _beginning(values: Iterable[Value | UnreadableError]) -> int:
    fits = 0
    for value in values:
        if isinstance(value, UnreadableError):
            break
        fits += 1
    return fits


def looks_like(output: Output, columns: Sequence[Column]) -> bool:
    """Whether some line has as many cells as there are columns and most fit, two from the first on."""
    for line in output.lines:
        if line.text.count(",") + 1 < len(columns):
            continue
        cells = csv_cells(line.text)
        if len(cells) != len(columns):
            continue
        values = fitting(cells, columns)
        fits = sum(not isinstance(value, UnreadableError) for value in values)
        if _beginning(values) >= min(_ANCHORS, len(columns)) and 2 * fits > len(columns):
            return True
    return False


def with_values(base: Reading, values: Iterable[tuple[str, Value]]) -> Reading:
    """`base` with named values. A name that a reading has no field for goes to `other`, unless it is None.

    A name that begins with `_` was read to prove its row whole, and is told to nobody.
    """
    named: dict[str, Any] = {}
    other: dict[str, str | int] = dict(base.other)
    for key, value in values:
        if key.startswith("_"):
            continue
        if key in _OF_READING:
            named[key] = value
        elif isinstance(value, str | int):
            other[key] = value
    return replace(base, **named, other=other)


Signs: TypeAlias = Callable[[Reading], Iterable[Sign]]


def no_signs(_: Reading) -> Iterable[Sign]:
    """For a tool that tells nothing of health."""
    return ()


def read_row(base: Reading, line: Line, columns: Sequence[Column], signs: Signs) -> Reading | Problem:
    """The reading of one line: incomplete where only its beginning fits, a problem where not that."""
    cells = csv_cells(line.text)
    values = fitting(cells, columns)
    whole_row = line.whole and len(cells) == len(columns)
    if whole_row and _beginning(values) == len(columns):
        told = ((column.name, value) for column, value in zip(columns, values, strict=True))
        reading = with_values(base, [(key, v) for key, v in told if not isinstance(v, UnreadableError)])
        return judged(reading, signs(reading))
    # The last cell may have been cut, so it does not say who the row is of.
    certain = min(_beginning(values), len(cells) - 1)
    identity = [
        (column.name, value)
        for column, value in zip(columns[:certain], values[:certain], strict=True)
        if column.name in IDENTITY and not isinstance(value, UnreadableError)
    ]
    if certain < _ANCHORS or all(value is None or key == "model" for key, value in identity):
        return Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number)
    return incomplete(with_values(base, identity), line.text)


def read_rows(
    output: Output, base: Reading, columns: Sequence[Column], signs: Signs = no_signs, *, skip: int = 0
) -> Parsed:
    """Every line from the `skip`-th on as a row of these columns."""
    readings: list[Reading] = []
    problems: list[Problem] = []
    for line in output.lines[skip:]:
        if len(readings) > READINGS_MAX:
            break  # no host's output; that there is more is told
        found = read_row(replace(base, line=kept(line.text)), line, columns, signs)
        problem = found if isinstance(found, Problem) else None
        if isinstance(found, Reading):
            readings.append(found)
            if not found.complete:
                problem = Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number)
        if problem is not None and len(problems) < PROBLEMS_MAX:
            problems.append(problem)
    return Parsed(readings=tuple(readings), problems=tuple(problems))

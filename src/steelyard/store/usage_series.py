"""Usage over time: what begins and what ends in each of many equal spans of a window, summed in SQL.

A sum over a span is the level at its beginning times its length, and what every beginning and end within it
adds or takes for the rest of the span. So one pass over a table serves any number of spans, exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, Integer, Table, case, func, literal_column, select

from steelyard.model.organisation import Scope
from steelyard.model.units import join_wide
from steelyard.store import tables as t
from steelyard.store.scoped import visible
from steelyard.store.usage import DIMENSIONS

_LOW_BITS, _LOW_MASK = 32, (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Spans:
    """A window `[start, end)` in µs cut into spans of equal width; the last one may reach beyond the end."""

    start: int
    end: int
    width: int

    @property
    def count(self) -> int:
        """How many there are."""
        return -(-(self.end - self.start) // self.width)


class Change(NamedTuple):
    """What begins (`sign` 1) or ends (−1) within a span: the quantity of each, how many, and how far after
    the span's beginning they lie, in sum (µs)."""

    key: tuple[Any, ...]
    sign: int
    span: int
    quantity: int
    number: int
    after: int


def held_changes(connection: Connection, scope: Scope, spans: Spans, by: Sequence[str]) -> Iterator[Change]:
    """Of stored holding segments; keys are (class, simulated, `by` values…)."""
    h = t.holding_segment.c
    keys = (h.device_class, h.simulated, *(DIMENSIONS[name] for name in by))
    return _changes(connection, t.holding_segment, h.quantity, spans, keys, visible(h.project, scope))


def unheld_changes(connection: Connection, spans: Spans) -> Iterator[Change]:
    """Of stored unheld segments; keys are (class, simulated, state)."""
    u = t.unheld_segment.c
    return _changes(connection, t.unheld_segment, u.quantity, spans, (u.device_class, u.simulated, u.state))


def capacity_changes(connection: Connection, spans: Spans) -> Iterator[Change]:
    """Of stored capacity segments; keys are (class, simulated)."""
    c = t.capacity_segment.c
    return _changes(connection, t.capacity_segment, c.capacity, spans, (c.device_class, c.simulated))


def _changes(
    connection: Connection,
    table: Table,
    quantity: Column[int],
    spans: Spans,
    keys: Iterable[Column[Any]],
    *where: ColumnElement[bool],
) -> Iterator[Change]:
    start, end, width = (
        literal_column(str(int(value)), Integer) for value in (spans.start, spans.end, spans.width)
    )
    within = (table.c.t0 < spans.end, table.c.t1 > spans.start, *where)
    first = case((table.c.t0 > start, table.c.t0), else_=start) - start
    last = case((table.c.t1 < end, table.c.t1), else_=end) - start
    groups = [*keys, quantity, first // width, last // width]
    sums = [func.count(), *_halves(first % width), *_halves(last % width)]
    query = select(*groups, *sums).where(*within).group_by(*groups)
    for row in connection.execute(query):
        key, (amount, begun, ended, number, *parts) = tuple(row[:-8]), (int(value) for value in row[-8:])
        yield Change(key, 1, begun, amount, number, join_wide(parts[0], parts[1]))
        yield Change(key, -1, ended, amount, number, join_wide(parts[2], parts[3]))


def _halves(after: ColumnElement[int]) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """The sum in two parts that don't overflow."""
    return (
        func.sum(after.bitwise_rshift(literal_column(str(_LOW_BITS), Integer))),
        func.sum(after.bitwise_and(literal_column(str(_LOW_MASK), Integer))),
    )

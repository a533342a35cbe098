"""Wide sums in SQL: quantity × time does not fit 64 bits, so its parts are summed apart and joined exactly.

A query groups by the quantity and sums durations as two integers (shapes.md 15); the product is made in
Python, where integers have no end. No sum in here can overflow below 2³¹ rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from sqlalchemy import Column, ColumnElement, Connection, Integer, Table, case, func, literal, select

from steelyard.model.units import join_wide

Key: TypeAlias = tuple[Any, ...]
_LOW_BITS, _LOW_MASK = 32, (1 << 32) - 1


def cut_duration(
    t0: Column[int], t1: Column[int], window: tuple[int, int]
) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """(SUM of the high parts, SUM of the low parts) of the durations within the window."""
    start, end = window
    length = case((t1 < end, t1), else_=end) - case((t0 > start, t0), else_=start)
    return (
        func.sum(length.bitwise_rshift(literal(_LOW_BITS, Integer))).label("high"),
        func.sum(length.bitwise_and(_LOW_MASK)).label("low"),
    )


def quantity_time(
    connection: Connection,
    table: Table,
    quantity: Column[int],
    window: tuple[int, int],
    by: Iterable[Column[Any]],
    *where: ColumnElement[bool],
) -> dict[Key, int]:
    """`by` values → Σ quantity × µs within the window, exactly, over a table with t0 and t1."""
    keys = list(by)
    high, low = cut_duration(table.c.t0, table.c.t1, window)
    query = (
        select(*keys, quantity, high, low)
        .where(table.c.t0 < window[1], table.c.t1 > window[0], *where)
        .group_by(*keys, quantity)
    )
    sums: dict[Key, int] = {}
    for row in connection.execute(query):
        key, (amount, upper, lower) = tuple(row[:-3]), row[-3:]
        sums[key] = sums.get(key, 0) + int(amount) * join_wide(int(upper), int(lower))
    return sums

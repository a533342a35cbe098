"""Reading flags: those that stand, those that stood at an instant, and all there ever were on something."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, or_, select

from steelyard.store import tables as t
from steelyard.store.scoped import Record, record
from steelyard.store.workloads import chunks

_f = t.flag.c


def standing_on(connection: Connection, object_ids: Collection[int]) -> list[Record]:
    """Flags that stand on these nodes and devices now, the oldest first."""
    found: list[Record] = []
    for chunk in chunks(sorted(object_ids)):
        query = select(t.flag).where(_f.object_id.in_(chunk), _f.valid_to.is_(None))
        found += [record(row) for row in connection.execute(query)]
    return sorted(found, key=lambda row: int(row["id"]))


def flags_of(connection: Connection, object_ids: Collection[int]) -> list[Record]:
    """Every flag there ever was on these, the oldest first."""
    query = select(t.flag).where(_f.object_id.in_(sorted(object_ids))).order_by(_f.id)
    return [record(row) for row in connection.execute(query)]


def all_standing(connection: Connection) -> list[Record]:
    """Flags that stand now, the oldest first."""
    query = select(t.flag).where(_f.valid_to.is_(None)).order_by(_f.id)
    return [record(row) for row in connection.execute(query)]


def flags_between(connection: Connection, start: int, end: int) -> list[Record]:
    """Flags that were set or lifted within [start, end)."""
    query = select(t.flag).where(
        or_(
            (_f.valid_from >= start) & (_f.valid_from < end),
            (_f.valid_to >= start) & (_f.valid_to < end),
        )
    )
    return [record(row) for row in connection.execute(query.order_by(_f.id))]


def stood_at(connection: Connection, at: int) -> list[Record]:
    """Flags that stood at an instant, the oldest first."""
    query = select(t.flag).where(_f.valid_from <= at, or_(_f.valid_to.is_(None), _f.valid_to > at))
    return [record(row) for row in connection.execute(query.order_by(_f.id))]

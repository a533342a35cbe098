"""What waits: how many stand before a workload in its queue, and what its shape waited for."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, tuple_

from steelyard.store import tables as t
from steelyard.store.scoped import Record, page_size, record
from steelyard.store.workloads import QUEUED_ROWS


def _queued(*where: ColumnElement[bool]) -> Select[Any]:
    w = t.workload.c
    return (
        select(func.count()).select_from(t.workload).where(w.queue == bindparam("queue"), QUEUED_ROWS, *where)
    )


_HIGHER = t.workload.c.priority > bindparam("priority")
_EARLIER = (t.workload.c.priority == bindparam("priority")) & (
    tuple_(t.workload.c.submitted_at, t.workload.c.id) < tuple_(bindparam("submitted"), bindparam("id"))
)
#: Two ranges of the index of those that wait; one condition with "or" would have to look at all of them.
_COUNT_AHEAD = select(_queued(_HIGHER).scalar_subquery() + _queued(_EARLIER).scalar_subquery())
_NEWEST_REASONS = (
    select(t.shape_reason)
    .where(
        t.shape_reason.c.shape_id == bindparam("id"),
        t.shape_reason.c.t1.is_(None) | (t.shape_reason.c.t1 > bindparam("start")),
    )
    .order_by(t.shape_reason.c.t0.desc())
    .limit(bindparam("most"))
)


def count_ahead(
    connection: Connection, queue: str, priority: int, submitted_at: int, workload_id: int
) -> int:
    """Waiting workloads of a queue that are looked at earlier: higher priority, else submitted earlier."""
    place = {"queue": queue, "priority": priority, "submitted": submitted_at, "id": workload_id}
    return int(connection.execute(_COUNT_AHEAD, place).scalar_one())


def newest_reasons(connection: Connection, shape_id: int, since: int, limit: int) -> list[Record]:
    """The reasons of a shape that stood at any time from an instant on, the newest first."""
    found = connection.execute(_NEWEST_REASONS, {"id": shape_id, "start": since, "most": page_size(limit)})
    return [record(row) for row in found]

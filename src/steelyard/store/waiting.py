"""The order in which those that wait in a queue are looked at: what stands before a workload."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, tuple_

from steelyard.model.organisation import Scope
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
_LIST_AHEAD = (
    select(t.workload.c.id, t.workload.c.name, t.workload.c.project, t.workload.c.priority)
    .where(t.workload.c.queue == bindparam("queue"), QUEUED_ROWS, _HIGHER | _EARLIER)
    .order_by(t.workload.c.priority.desc(), t.workload.c.submitted_at, t.workload.c.id)
    .limit(bindparam("most"))
)


def count_ahead(
    connection: Connection, queue: str, priority: int, submitted_at: int, workload_id: int
) -> int:
    """Waiting workloads of a queue that are looked at earlier: higher priority, else submitted earlier."""
    place = {"queue": queue, "priority": priority, "submitted": submitted_at, "id": workload_id}
    return int(connection.execute(_COUNT_AHEAD, place).scalar_one())


def list_ahead(connection: Connection, scope: Scope, row: Record, limit: int = 10) -> list[Record]:
    """The first of those waiting before a workload. Of projects outside the scope only the priority."""
    place = {"queue": row["queue"], "priority": row["priority"], "submitted": row["submitted_at"]}
    asked = connection.execute(_LIST_AHEAD, {**place, "id": row["id"], "most": page_size(limit)})
    return [
        entry if scope.allows(entry["project"]) else {**entry, "id": None, "name": None, "project": None}
        for entry in map(record, asked)
    ]

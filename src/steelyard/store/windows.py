"""What happened in a window: who was submitted, what ran and for how long, when devices came and went."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, or_, select

from steelyard.store import tables as t
from steelyard.store.scoped import Record, record
from steelyard.store.workloads import chunks


def workloads_between(connection: Connection, start: int, end: int, limit: int) -> list[Record]:
    """Workloads that were live at some time of `[start, end)` (µs), in the order of their ids."""
    w = t.workload.c
    query = select(
        w.id, w.name, w.namespace, w.project, w.kind, w.shape_id, w.spec_json, w.phase, w.outcome,
        w.submitted_at, w.finished_at, w.guaranteed, w.standby, w.activated_at,
    ).where(w.submitted_at < end, or_(w.finished_at.is_(None), w.finished_at >= start))  # fmt: skip
    return [record(row) for row in connection.execute(query.order_by(w.id).limit(limit))]


def attempts_of(connection: Connection, workloads: list[int]) -> dict[int, list[Record]]:
    """workload → its attempts in their order: when they were placed and gave back what they held."""
    a = t.attempt.c
    found: dict[int, list[Record]] = {}
    for chunk in chunks(sorted(workloads)):
        query = select(
            a.id, a.workload_id, a.number, a.eligible, a.placed, a.ended, a.release_confirmed, a.outcome
        ).where(a.workload_id.in_(chunk))
        for row in connection.execute(query.order_by(a.workload_id, a.number)):
            found.setdefault(row.workload_id, []).append(record(row))
    return found


def capacity_changes(connection: Connection, start: int, end: int) -> list[int]:
    """Instants of `(start, end)` (µs) at which a device came, went, or changed what it offers."""
    c, d = t.capacity_segment.c, t.device.c
    ended: Any = select(c.t1).where(c.t1 > start, c.t1 < end).distinct()
    came: Any = select(d.registered_at).where(d.registered_at > start, d.registered_at < end).distinct()
    found = {*connection.execute(ended).scalars(), *connection.execute(came).scalars()}
    return sorted(int(at) for at in found)

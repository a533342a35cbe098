"""Reading groups: replicas of a service, tasks of an array. The caller has found them in its scope."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t
from steelyard.store.scoped import Record, record
from steelyard.store.workloads import CURRENT_ATTEMPT, LIVE_ROWS, WITH_ATTEMPT, chunks


def get_group(connection: Connection, group_id: int) -> Record | None:
    """What is wanted of a group."""
    row = connection.execute(select(t.workload_group).where(t.workload_group.c.id == group_id)).first()
    return None if row is None else record(row)


def live_members(connection: Connection, group_id: int) -> list[Record]:
    """Workloads of a group that are not finished, with their current attempt, by index."""
    query = select(t.workload, *WITH_ATTEMPT).join(t.attempt, CURRENT_ATTEMPT)
    query = query.where(t.workload.c.group_id == group_id, LIVE_ROWS).order_by(t.workload.c.group_index)
    return [record(row) for row in connection.execute(query)]


def members(connection: Connection, group_id: int, limit: int) -> list[Record]:
    """The newest workloads of a group, by index."""
    query = select(t.workload, *WITH_ATTEMPT).join(t.attempt, CURRENT_ATTEMPT)
    query = query.where(t.workload.c.group_id == group_id).order_by(t.workload.c.group_index.desc())
    return [record(row) for row in connection.execute(query.limit(limit))][::-1]


def counts(connection: Connection, group_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """group id → how many workloads there are by phase, of finished ones by outcome; apart, as `standby`,
    those whose place is kept and that are not wanted yet."""
    w = t.workload.c
    found: dict[int, dict[str, int]] = {}
    waits = w.standby & w.activated_at.is_(None)
    keys = (w.group_id, w.phase, w.outcome, waits.label("stands_by"))
    for chunk in chunks(sorted(group_ids)):
        query = select(*keys, func.count().label("number")).where(w.group_id.in_(chunk)).group_by(*keys)
        for row in connection.execute(query):
            kept = row.phase == "reserved" and row.stands_by
            name = row.outcome if row.phase == "finished" else "standby" if kept else row.phase
            counted = found.setdefault(row.group_id, {})
            counted[name] = counted.get(name, 0) + row.number
    return found


def groups_of(connection: Connection, group_ids: Collection[int]) -> dict[int, Record]:
    """group id → what is wanted of it."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(group_ids)):
        query = select(t.workload_group).where(t.workload_group.c.id.in_(chunk))
        found.update((row.id, record(row)) for row in connection.execute(query))
    return found


def open_arrays(connection: Connection) -> list[Record]:
    """Arrays that have tasks still to be submitted."""
    g = t.workload_group.c
    query = select(t.workload_group).where(g.kind == "array", g.stopped_at.is_(None), g.next_index < g.most)
    return [record(row) for row in connection.execute(query)]


def members_by_index(connection: Connection, group_id: int, index: int) -> Record | None:
    """The workload of a group at an index."""
    w = t.workload.c
    query = select(t.workload).where(w.group_id == group_id, w.group_index == index)
    row = connection.execute(query).first()
    return None if row is None else record(row)


def guarantees(connection: Connection, queue: str | None = None) -> list[Record]:
    """(id, guaranteed, shape_id, queue) of living services with a guarantee; of one queue or all."""
    w, g = t.workload.c, t.workload_group.c
    living = select(w.group_id).where(w.group_id.is_not(None), LIVE_ROWS)
    alive = (living if queue is None else living.where(w.queue == queue)).distinct().subquery()
    query = (
        select(g.id, g.guaranteed, w.shape_id, w.queue)
        .select_from(t.workload_group.join(alive, alive.c.group_id == g.id).join(t.workload, w.id == g.id))
        .where(g.guaranteed > 0)
        .order_by(g.id)
    )
    return [record(row) for row in connection.execute(query)]

"""Reading stored cycles of the scheduling loop."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, page_size, record

_c = t.cycle.c


def list_cycles(
    connection: Connection, scope: Scope, *, after: int | None = None, limit: int = 50
) -> list[Record]:
    """Cycles, the newest first. They tell of every project, so only an unlimited scope sees them."""
    if scope.projects is not None:
        return []
    query = select(t.cycle).order_by(_c.id.desc()).limit(page_size(limit))
    if after is not None:
        query = query.where(_c.id < after)
    return [record(row) for row in connection.execute(query)]


def newest_instant(connection: Connection) -> int:
    """When the newest stored cycle decided (µs); 0 before the first."""
    newest = select(_c.at).order_by(_c.id.desc()).limit(1)
    return int(connection.execute(newest).scalar() or 0)


def get_cycle(connection: Connection, scope: Scope, cycle_id: int) -> Record | None:
    """One cycle, for an unlimited scope."""
    if scope.projects is not None:
        return None
    row = connection.execute(select(t.cycle).where(_c.id == cycle_id)).first()
    return None if row is None else record(row)


def decisions_of(connection: Connection, attempt_id: int) -> str | None:
    """What the cycle decided that placed an attempt; None where it was not placed, or that is not kept."""
    query = select(_c.decisions_json).join(t.attempt, t.attempt.c.cycle_id == _c.id)
    return connection.execute(query.where(t.attempt.c.id == attempt_id)).scalar()


def cycle_ids(
    connection: Connection, scope: Scope, since: int, until: int, after: int | None, limit: int
) -> list[int]:
    """Ids of the cycles of `[since, until)` (µs), the oldest first, from behind `after`."""
    if scope.projects is not None:
        return []
    query = select(_c.id).where(_c.at >= since, _c.at < until).order_by(_c.id).limit(limit)
    if after is not None:
        query = query.where(_c.id > after)
    return list(connection.execute(query).scalars())


def count_cycles(connection: Connection, scope: Scope, since: int, until: int) -> int:
    """How many cycles `[since, until)` has."""
    if scope.projects is not None:
        return 0
    query = select(func.count()).select_from(t.cycle).where(_c.at >= since, _c.at < until)
    return int(connection.execute(query).scalar_one())


def cycles_of(connection: Connection, scope: Scope, since: int, until: int, limit: int) -> list[Record]:
    """(id, at, policy_version) of the cycles of `[since, until)` (µs), the oldest first."""
    if scope.projects is not None:
        return []
    query = select(_c.id, _c.at, _c.policy_version).where(_c.at >= since, _c.at < until)
    return [record(row) for row in connection.execute(query.order_by(_c.id).limit(limit))]

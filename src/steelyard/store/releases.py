"""Reading releases: receipts, those that were not proven, and who came next on what was given back."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, bindparam, func, select

from steelyard.model.ids import first_id_at
from steelyard.model.organisation import Scope
from steelyard.model.units import SECOND
from steelyard.store import tables as t
from steelyard.store.scoped import Record, page_size, record, visible
from steelyard.store.usage import Window
from steelyard.store.workloads import chunks

_r, _w = t.unproven_release.c, t.workload.c


def open_releases(connection: Connection) -> Sequence[Row[Any]]:
    """Unproven releases that are not closed, the oldest first."""
    found = connection.execute(select(t.unproven_release).where(_r.closed_at.is_(None))).all()
    return sorted(found, key=lambda row: int(row.attempt_id))


def releases_by_id(connection: Connection, ids: Iterable[int]) -> Sequence[Row[Any]]:
    """These unproven releases, closed or not."""
    return connection.execute(select(t.unproven_release).where(_r.attempt_id.in_(sorted(ids)))).all()


def quarantined_without_release(connection: Connection) -> list[Record]:
    """Attempts with open quarantines of a version that had no rows for unproven releases."""
    q, a = t.quarantine.c, t.attempt.c
    query = (
        select(q.attempt_id, q.device_id, q.quantity, q.t0, a.workload_id, a.cluster, _w.project)
        .join(t.attempt, a.id == q.attempt_id)
        .join(t.workload, _w.id == a.workload_id)
        .outerjoin(t.unproven_release, _r.attempt_id == q.attempt_id)
        .where(q.t1.is_(None), _r.attempt_id.is_(None))
    )
    return [record(row) for row in connection.execute(query.order_by(q.attempt_id, q.device_id))]


def _named() -> Select[tuple[object, ...]]:
    query: Select[tuple[object, ...]] = select(
        t.unproven_release, _w.name, _w.namespace, t.attempt.c.number
    ).join(t.workload, _w.id == _r.workload_id)
    m = t.member.c  # a member that left its attempt has a release of its own
    query = query.outerjoin(t.member, and_(m.id == _r.attempt_id, m.apart))
    return query.join(t.attempt, t.attempt.c.id == func.coalesce(m.attempt_id, _r.attempt_id))


def list_releases(
    connection: Connection, scope: Scope, *, closed: bool | None, after: int | None, limit: int
) -> list[Record]:
    """A page of unproven releases, the newest first; `closed` None: all."""
    query = _named().where(visible(_r.project, scope)).order_by(_r.attempt_id.desc())
    if closed is not None:
        query = query.where(_r.closed_at.is_not(None) if closed else _r.closed_at.is_(None))
    if after is not None:
        query = query.where(_r.attempt_id < after)
    return [record(row) for row in connection.execute(query.limit(page_size(limit)))]


def get_release(connection: Connection, scope: Scope, attempt_id: int) -> Record | None:
    """One unproven release within the scope."""
    row = connection.execute(_named().where(_r.attempt_id == attempt_id, visible(_r.project, scope))).first()
    return None if row is None else record(row)


_UNPROVEN = select(t.unproven_release).where(_r.attempt_id.in_(bindparam("ids", expanding=True)))


def unproven_of(connection: Connection, attempt_ids: Collection[int]) -> dict[int, Record]:
    """attempt → its unproven release, for attempts that had one. The caller has found the attempts."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(attempt_ids)):
        rows = connection.execute(_UNPROVEN, {"ids": chunk})
        found.update((row.attempt_id, record(row)) for row in rows)
    return found


def quarantined_by(connection: Connection, attempt_ids: Collection[int]) -> dict[int, list[Record]]:
    """attempt → what it put into quarantine, open or closed, with the device."""
    q, d = t.quarantine.c, t.device.c
    found: dict[int, list[Record]] = {}
    for chunk in chunks(sorted(attempt_ids)):
        query = (
            select(q.attempt_id, q.device_id, q.quantity, q.t0, q.t1, d.uid, d.cluster, d.device_class)
            .join(t.device, d.id == q.device_id)
            .where(q.attempt_id.in_(chunk))
        )
        for row in connection.execute(query.order_by(q.device_id)):
            found.setdefault(row.attempt_id, []).append(record(row))
    return found


def quarantine_intervals(connection: Connection) -> list[Record]:
    """What was in quarantine when: device_id, quantity, t0, t1 (None: still)."""
    q = t.quarantine.c
    query = select(q.device_id, q.quantity, q.t0, q.t1).order_by(q.device_id, q.t0)
    return [record(row) for row in connection.execute(query)]


def next_holder(connection: Connection, scope: Scope, device_id: int, since: int) -> Record | None:
    """Who was placed first on a device at or after `since`: attempt, workload, t0, started.

    Ids grow with time, so only allocations made since then are looked at. What is outside the scope is named
    by its time alone.
    """
    a, at = t.allocation.c, t.attempt.c
    query = (
        select(a.attempt_id, a.t0, at.started, at.number, _w.id.label("workload_id"), _w.name, _w.project)
        .join(t.attempt, at.id == a.attempt_id)
        .join(t.workload, _w.id == at.workload_id)
        .where(and_(a.id >= first_id_at(since - SECOND), a.device_id == device_id, a.t0 >= since))
        .order_by(a.id)
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    found = record(row)
    hidden = {"attempt_id": None, "workload_id": None, "name": None, "project": None, "number": None}
    return found if scope.allows(found["project"]) else {**found, **hidden}


def receipts_between(connection: Connection, window: Window) -> Iterator[Record]:
    """Receipts that were confirmed in the window, by their part's id: `part` is a member that left an attempt
    which goes on, null where the attempt ended; `attempt` and `workload` are whose it is."""
    r, m, a = t.receipt.c, t.member.c, t.attempt.c
    joined = t.receipt.outerjoin(t.member, m.id == r.attempt_id).join(
        t.attempt, a.id == func.coalesce(m.attempt_id, r.attempt_id)
    )
    query = (
        select(t.receipt, m.id.label("part"), m.role, m.idx, a.id.label("attempt"), a.workload_id)
        .select_from(joined)
        .where(r.confirmed_at >= window[0], r.confirmed_at < window[1])
        .order_by(r.attempt_id)
    )
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield record(row)

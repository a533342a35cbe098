"""Reading usage: sums by window, and the rows that reports, checks and exports are made of.

Windows are `[start, end)` in µs; rows are given whole, sums are cut at the borders. The segments of what is
still open are not stored: `open_meters` and `open_holdings` are what they are made of.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Table, func, or_, select

from steelyard.model.organisation import Scope
from steelyard.model.resources import UnavailableReason
from steelyard.model.units import join_wide
from steelyard.store import tables as t
from steelyard.store.scoped import Record, record, visible
from steelyard.store.wide import Key, cut_duration, quantity_time
from steelyard.store.workloads import chunks

Window = tuple[int, int]
UNOWNED = UnavailableReason.OCCUPIED_UNOWNED.value
_h, _a, _at, _w = t.holding_segment.c, t.allocation.c, t.attempt.c, t.workload.c

#: Dimensions that are columns of the holding segments.
DIMENSIONS: dict[str, Column[Any]] = {
    "project": _h.project,
    "team": _h.team,
    "kind": _h.kind,
    "class": _h.device_class,
    "environment": _h.environment,
    "cost_centre": _h.cost_centre,
    "namespace": _h.namespace,
    "submitter": _h.submitter,
    "cluster": _h.cluster,
    "queue": _h.queue,
    "flavor": _h.flavor,
}


def held_sums(connection: Connection, scope: Scope, window: Window, by: Sequence[str]) -> dict[Key, int]:
    """(`by` values…, simulated, state) → quantity × µs of the stored holding segments."""
    columns = [*(DIMENSIONS[name] for name in by), _h.simulated, _h.state]
    return quantity_time(
        connection, t.holding_segment, _h.quantity, window, columns, visible(_h.project, scope)
    )


def unheld_sums(connection: Connection, window: Window) -> dict[Key, int]:
    """(class, simulated, state) → quantity × µs of the stored unheld segments."""
    u = t.unheld_segment.c
    by = (u.device_class, u.simulated, u.state)
    return quantity_time(connection, t.unheld_segment, u.quantity, window, by)


def unowned_sums(connection: Connection, window: Window) -> dict[Key, int]:
    """(class, simulated) → quantity × µs that somebody used whom no workload owned, of stored segments."""
    u = t.unheld_segment.c
    return quantity_time(
        connection, t.unheld_segment, u.quantity, window, (u.device_class, u.simulated), u.reason == UNOWNED
    )


def capacity_sums(connection: Connection, window: Window) -> dict[Key, int]:
    """(class, simulated) → capacity × µs of the stored capacity segments."""
    c = t.capacity_segment.c
    return quantity_time(connection, t.capacity_segment, c.capacity, window, (c.device_class, c.simulated))


def device_sums(connection: Connection, window: Window) -> dict[int, int]:
    """device → capacity − held − unheld, × µs, of the stored segments alone."""
    left: dict[int, int] = {}
    parts: tuple[tuple[Table, Column[Any], int], ...] = (
        (t.capacity_segment, t.capacity_segment.c.capacity, 1),
        (t.unheld_segment, t.unheld_segment.c.quantity, -1),
        (t.holding_segment, _h.quantity, -1),
    )
    for table, quantity, sign in parts:
        sums = quantity_time(connection, table, quantity, window, (table.c.device_id,))
        for (device_id,), amount in sums.items():
            if device_id is not None:
                left[device_id] = left.get(device_id, 0) + sign * amount
    return left


def idle_places(connection: Connection, window: Window) -> dict[Key, int]:
    """(cluster, class, simulated, state) → quantity × µs of the stored unheld segments."""
    u = t.unheld_segment.c
    by = (u.cluster, u.device_class, u.simulated, u.state)
    return quantity_time(connection, t.unheld_segment, u.quantity, window, by)


def capacity_places(connection: Connection, window: Window) -> dict[Key, int]:
    """(cluster, class, simulated) → capacity × µs of the stored capacity segments."""
    c = t.capacity_segment.c
    by = (c.cluster, c.device_class, c.simulated)
    return quantity_time(connection, t.capacity_segment, c.capacity, window, by)


def unattributed(connection: Connection, scope: Scope, window: Window) -> dict[Key, int]:
    """(project, class, simulated) → quantity × µs of the stored holding segments that have no place in the
    organisation."""
    by = (_h.project, _h.device_class, _h.simulated)
    where = (_h.attribution != "attributed", visible(_h.project, scope))
    return quantity_time(connection, t.holding_segment, _h.quantity, window, by, *where)


def first_instant(connection: Connection) -> int | None:
    """When the first device was registered."""
    return connection.execute(select(func.min(t.device.c.registered_at))).scalar()


# --- rows ------------------------------------------------------------------------------------------
def _overlapping(table: Table, window: Window) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return table.c.t0 < window[1], or_(table.c.t1.is_(None), table.c.t1 > window[0])


def _rows(
    connection: Connection, table: Table, window: Window, *where: ColumnElement[bool]
) -> Iterator[Record]:
    """Whole rows by key (`device_class`), in order of time."""
    columns = [column.label(key) for key, column in table.c.items()]
    query = select(*columns).where(*_overlapping(table, window), *where).order_by(table.c.t0)
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield record(row)


def capacity_rows(connection: Connection, window: Window) -> Iterator[Record]:
    """Stored capacity segments that overlap the window."""
    return _rows(connection, t.capacity_segment, window)


def unheld_rows(connection: Connection, window: Window) -> Iterator[Record]:
    """Stored unheld segments that overlap the window."""
    return _rows(connection, t.unheld_segment, window)


def holding_rows(connection: Connection, scope: Scope, window: Window) -> Iterator[Record]:
    """Stored holding segments that overlap the window, within the scope."""
    return _rows(connection, t.holding_segment, window, visible(_h.project, scope))


#: What the checks need of a holding segment.
CHECKED = (
    "device_id", "allocation_id", "attempt_id", "device_class", "quantity", "t0", "t1", "state",
    "attribution", "namespace", "project", "team",
)  # fmt: skip


def checked_holdings(connection: Connection, window: Window) -> Iterator[Record]:
    """Stored holding segments of everybody with the columns `CHECKED`; equal texts share their memory."""
    columns = [t.holding_segment.c[name].label(name) for name in CHECKED]
    query = select(*columns).where(*_overlapping(t.holding_segment, window)).order_by(_h.t0)
    texts: dict[str, str] = {}
    for row in connection.execution_options(yield_per=2000).execute(query):
        values = (texts.setdefault(value, value) if isinstance(value, str) else value for value in row)
        yield dict(zip(CHECKED, values, strict=True))


def allocation_rows(connection: Connection, window: Window) -> Iterator[Record]:
    """Allocations that overlap the window; `t1` null: still open."""
    return _rows(connection, t.allocation, window)


def metered_devices(connection: Connection) -> list[Record]:
    """Devices that are or were metered: all but parents whose children are."""
    d = t.device.c
    metered = select(t.capacity_segment.c.device_id).union(select(t.device_meter.c.device_id))
    query = select(
        d.id, d.cluster, d.uid, d.device_class.label("device_class"), d.model, d.registered_at, d.retired_at,
        d.simulated, d.has_children,
    ).where(d.id.in_(metered))  # fmt: skip
    return [record(row) for row in connection.execute(query.order_by(d.id))]


def parents(connection: Connection) -> set[int]:
    """Devices that are or were divided."""
    parent = t.device.c.parent_id
    return set(connection.execute(select(parent).distinct().where(parent.is_not(None))).scalars())


def open_holdings(connection: Connection, scope: Scope) -> Sequence[Row[Any]]:
    """Open allocations with their attempt's stage times and their workload's facts, by attempt."""
    columns = [
        _a.id, _a.attempt_id, _a.device_id, _a.cluster, _a.flavor, _a.device_class.label("device_class"),
        _a.quantity, _a.share_kind, _a.t0, _a.t1, _a.org_version, _a.policy_version, _a.quota_basis,
        _a.lender,
        _at.workload_id, _at.phase, _at.queue, _at.priority, _at.simulated, _at.submitted, _at.eligible,
        _at.reserved, _at.placed, _at.started, _at.ready, _at.stopping, _at.ended, _at.release_confirmed,
        _w.kind, _w.submitter, _w.namespace, _w.project,
    ]  # fmt: skip
    query = (
        select(*columns)
        .join(t.attempt, _at.id == _a.attempt_id)
        .join(t.workload, _w.id == _at.workload_id)
        .where(_a.t1.is_(None), visible(_w.project, scope))
    )
    # in SQL the order would cost the index of open ones
    return sorted(connection.execute(query).all(), key=lambda row: (row.attempt_id, row.id))


def attempt_rows(connection: Connection) -> Iterator[Record]:
    """Every attempt with its stage times."""
    columns = [
        _at.id, _at.workload_id, _at.number, _at.phase, _at.outcome, _at.submitted, _at.eligible,
        _at.reserved, _at.placed, _at.started, _at.ready, _at.stopping, _at.ended, _at.release_confirmed,
    ]  # fmt: skip
    for row in connection.execution_options(yield_per=2000).execute(select(*columns).order_by(_at.id)):
        yield record(row)


def pool_history(connection: Connection) -> dict[int, list[tuple[int, int | None, str]]]:
    """device → (valid_from, valid_to, pool) in order of time."""
    m = t.pool_member.c
    query = select(m.device_id, m.valid_from, m.valid_to, m.pool).order_by(m.device_id, m.valid_from)
    found: dict[int, list[tuple[int, int | None, str]]] = {}
    for row in connection.execute(query):
        found.setdefault(row.device_id, []).append((row.valid_from, row.valid_to, row.pool))
    return found


# --- waits and counts ------------------------------------------------------------------------------
def wait_rows(connection: Connection, scope: Scope, window: Window) -> Iterator[Record]:
    """Wait slices that overlap the window, with project and kind."""
    s = t.wait_slice.c
    query = (
        select(s.attempt_id, s.t0, s.t1, s.reason, _at.workload_id, _w.project, _w.kind)
        .join(t.attempt, _at.id == s.attempt_id)
        .join(t.workload, _w.id == _at.workload_id)
        .where(s.t0 < window[1], s.t1 > window[0], visible(_w.project, scope))
        .order_by(s.attempt_id, s.t0)
    )
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield record(row)


def wait_sums(
    connection: Connection, scope: Scope, window: Window
) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(project, kind, reason) → (µs within the window, workloads) of the stored wait slices."""
    s = t.wait_slice.c
    high, low = cut_duration(s.t0, s.t1, window)
    keys = (_w.project, _w.kind, s.reason)
    query = (
        select(*keys, high, low, func.count(_w.id.distinct()))
        .join_from(t.wait_slice, t.attempt, _at.id == s.attempt_id)
        .join(t.workload, _w.id == _at.workload_id)
        .where(s.t0 < window[1], s.t1 > window[0], visible(_w.project, scope))
        .group_by(*keys)
    )
    return {
        (row[0], row[1], row[2]): (join_wide(int(row[3]), int(row[4])), int(row[5]))
        for row in connection.execute(query)
    }


def waited(connection: Connection, workloads: Collection[int], window: Window) -> set[tuple[int, str]]:
    """(workload, reason) of the stored wait slices of these workloads within the window."""
    s = t.wait_slice.c
    found: set[tuple[int, str]] = set()
    for chunk in chunks(sorted(workloads)):
        query = (
            select(_at.workload_id, s.reason)
            .join_from(t.attempt, t.wait_slice, s.attempt_id == _at.id)
            .where(_at.workload_id.in_(chunk), s.t0 < window[1], s.t1 > window[0])
            .distinct()
        )
        found.update((row[0], row[1]) for row in connection.execute(query))
    return found


def waiting_now(connection: Connection, scope: Scope) -> list[Record]:
    """Current attempts that wait, with what their slices are made of, and how far these are stored."""
    stored = (
        select(t.wait_slice.c.attempt_id, func.max(t.wait_slice.c.t1).label("noted_until"))
        .group_by(t.wait_slice.c.attempt_id)
        .subquery()
    )
    query = (
        select(
            _w.id, _w.project, _w.kind, _w.shape_id, _w.phase, _w.standby, _w.activated_at,
            _at.id.label("attempt_id"),
            _at.submitted.label("attempt_submitted"), _at.eligible, stored.c.noted_until,
        )
        .join(t.attempt, (_at.workload_id == _w.id) & (_at.number == _w.attempt))
        .outerjoin(stored, stored.c.attempt_id == _at.id)
        .where(_w.phase.in_(("held", "queued", "reserved")), visible(_w.project, scope))
    )  # fmt: skip
    return [record(row) for row in connection.execute(query)]


def count_workloads(connection: Connection, scope: Scope, window: Window) -> dict[str, Any]:
    """Requests of the window: taken, refused; finished in it by outcome; live at its end."""
    start, end = window
    seen, r = visible(_w.project, scope), t.refusal.c
    taken = (
        select(func.count())
        .select_from(t.workload)
        .where(seen, _w.submitted_at >= start, _w.submitted_at < end)
    )
    refused = (
        select(func.count())
        .select_from(t.refusal)
        .where(visible(r.project, scope), r.at >= start, r.at < end)
    )
    finished = (
        select(_w.outcome, func.count())
        .where(seen, _w.finished_at >= start, _w.finished_at < end)
        .group_by(_w.outcome)
    )
    live = (
        select(func.count())
        .select_from(t.workload)
        .where(seen, _w.submitted_at < end, or_(_w.finished_at.is_(None), _w.finished_at >= end))
    )
    return {
        "taken": int(connection.execute(taken).scalar_one()),
        "refused": int(connection.execute(refused).scalar_one()),
        "finished": {row[0]: row[1] for row in connection.execute(finished)},
        "live": int(connection.execute(live).scalar_one()),
    }


def count_all(connection: Connection) -> tuple[dict[str, int], dict[str, int], int]:
    """(workloads by phase, finished ones by outcome, refusals) of all times."""
    phases = connection.execute(select(_w.phase, func.count()).group_by(_w.phase))
    outcomes = connection.execute(
        select(_w.outcome, func.count()).where(_w.phase == "finished").group_by(_w.outcome)
    )
    refusals = connection.execute(select(func.count()).select_from(t.refusal)).scalar_one()
    return {row[0]: row[1] for row in phases}, {row[0]: row[1] for row in outcomes}, int(refusals)


def count_requests(connection: Connection) -> int:
    """Requests by the log: leaves of workloads that were taken and leaves of refusals."""
    c = t.leaf.c
    query = select(func.count()).where(
        ((c.object_kind == "workload") & (c.action == "workload.submit"))
        | ((c.object_kind == "refusal") & (c.outcome == "refused"))
    )
    return int(connection.execute(query.select_from(t.leaf)).scalar_one())


def blind_rows(connection: Connection, window: Window) -> list[Record]:
    """Times during which a cluster was not observed; `t1` null: still."""
    return list(_rows(connection, t.coverage, window))


def refusal_rows(connection: Connection, window: Window) -> Iterator[Record]:
    """Refusals of the window."""
    r = t.refusal.c
    query = select(t.refusal).where(r.at >= window[0], r.at < window[1]).order_by(r.id)
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield record(row)


def limit_rows(connection: Connection) -> list[Record]:
    """Every limit there ever was, with its interval."""
    return [record(row) for row in connection.execute(select(t.quota_limit).order_by(t.quota_limit.c.id))]


def declared_versions(connection: Connection, kinds: Sequence[str]) -> list[Record]:
    """Every version there ever was of declared objects of these kinds."""
    d = t.declared.c
    query = select(d.kind, d.name, d.version, d.valid_from, d.valid_to, d.labels_json, d.spec_json)
    rows = connection.execute(query.where(d.kind.in_(list(kinds))).order_by(d.valid_from, d.id))
    return [record(row) for row in rows]


def places_of_attempts(connection: Connection) -> dict[int, tuple[str, int]]:
    """attempt → (namespace, shape) of its workload."""
    query = select(_at.id, _w.namespace, _w.shape_id).join(t.workload, _w.id == _at.workload_id)
    return {row[0]: (row[1], row[2]) for row in connection.execute(query)}


def held_amounts(connection: Connection) -> list[Record]:
    """What each workload holds now, by class and flavor, and since when."""
    by = (
        _w.id, _w.name, _w.namespace, _w.queue, _w.priority, _w.shape_id,
        _a.device_class.label("device_class"), _a.flavor,
    )  # fmt: skip
    sums = func.sum(_a.quantity).label("quantity"), func.min(_a.t0).label("since")
    held = select(*by, *sums).join(t.attempt, _at.id == _a.attempt_id)
    query = held.join(t.workload, _w.id == _at.workload_id).where(_a.t1.is_(None)).group_by(*by)
    return [record(row) for row in connection.execute(query)]


def shape_bodies(connection: Connection) -> dict[int, str]:
    """shape → its content, of all there are."""
    return {row[0]: row[1] for row in connection.execute(select(t.shape.c.id, t.shape.c.body_json))}

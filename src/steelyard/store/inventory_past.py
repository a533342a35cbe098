"""Reading the inventory as it was at an instant, and what of it changed between two.

An interval holds at `at` exactly when valid_from <= at and (valid_to is null or valid_to > at). What never
changed since is in the device's own row; what did is in the closed intervals of the time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, or_, select

from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.inventory import shown_in
from steelyard.store.scoped import Record, page_size, record
from steelyard.store.workloads import chunks

_d, _n, _m, _s = t.device.c, t.node.c, t.pool_member.c, t.node_state.c


def held_at(start: Column[Any], end: Column[Any], at: int) -> ColumnElement[bool]:
    """Whether an interval holds at an instant."""
    return and_(start <= at, or_(end.is_(None), end > at))


def _chunked(
    connection: Connection, query: Select[Any], column: Column[Any], ids: Collection[int] | None
) -> Iterator[Row[Any]]:
    """Rows of these ids; of all where ids are None."""
    if ids is None:
        yield from connection.execute(query)
        return
    for chunk in chunks(sorted(ids)):
        yield from connection.execute(query.where(column.in_(chunk)))


def nodes(
    connection: Connection, at: int, *, cluster: str | None = None, after: int | None = None,
    limit: int | None = None, node_ids: Collection[int] | None = None,
) -> list[Record]:  # fmt: skip
    """Nodes that were registered, with their state and labels of the time, by id."""
    query = (
        select(
            _n.id, _n.cluster, _n.name, _n.simulated, _s.availability, _s.reason, _s.reason_text,
            _s.labels_json,
        )
        .join(t.node_state, _s.node_id == _n.id)
        .where(held_at(_s.valid_from, _s.valid_to, at))
        .order_by(_n.id)
    )  # fmt: skip
    if cluster is not None:
        query = query.where(_n.cluster == cluster)
    if after is not None:
        query = query.where(_n.id > after)
    if node_ids is not None:
        query = query.where(_n.id.in_(sorted(node_ids)))
    if limit is not None:
        query = query.limit(page_size(limit))
    return [record(row) for row in connection.execute(query)]


def nodes_with(connection: Connection, at: int, device_class: str | None, pool: str | None) -> list[int]:
    """Nodes that had such a device."""
    query = select(_d.node_id).distinct().where(held_at(_d.registered_at, _d.retired_at, at))
    if device_class is not None:
        query = query.where(_d.device_class == device_class)
    if pool is not None:
        member = and_(_m.device_id == _d.id, held_at(_m.valid_from, _m.valid_to, at))
        query = query.join(t.pool_member, member).where(_m.pool == pool)
    return list(connection.execute(query).scalars())


def devices(connection: Connection, at: int, node_ids: Collection[int] | None) -> list[Record]:
    """Devices that were registered on these nodes (None: on all), with pool, flavor and node, by id."""
    member = and_(_m.device_id == _d.id, held_at(_m.valid_from, _m.valid_to, at))
    query = (
        select(t.device, _m.pool, _m.flavor, _n.name.label("node"))
        .join(t.node, _n.id == _d.node_id)
        .outerjoin(t.pool_member, member)
        .where(held_at(_d.registered_at, _d.retired_at, at))
        .order_by(_d.node_id, _d.id)
    )
    return [record(row) for row in _chunked(connection, query, _d.node_id, node_ids)]


def states(connection: Connection, at: int, ids: Collection[int] | None) -> dict[int, Row[Any]]:
    """device → (availability, reason, capacity) of the time, where that is not the period of now."""
    c = t.capacity_segment.c
    query = select(c.device_id, c.availability, c.reason, c.capacity).where(c.t0 <= at, c.t1 > at)
    return {row.device_id: row for row in _chunked(connection, query, c.device_id, ids)}


def conditions(connection: Connection, at: int, ids: Collection[int] | None) -> dict[int, Row[Any]]:
    """device → what was said of it, where it was not simply healthy."""
    c = t.device_condition.c
    query = select(t.device_condition).where(held_at(c.valid_from, c.valid_to, at))
    return {row.device_id: row for row in _chunked(connection, query, c.device_id, ids)}


def facts(
    connection: Connection, at: int, ids: Collection[int] | None, keys: Collection[str]
) -> dict[int, dict[str, Row[Any]]]:
    """device → key → (value, provenance, source) of the time, of some keys."""
    f = t.device_fact.c
    query = select(f.device_id, f.key, f.value_json, f.provenance, f.source).where(
        held_at(f.valid_from, f.valid_to, at), f.key.in_(sorted(keys))
    )
    found: dict[int, dict[str, Row[Any]]] = {}
    for row in _chunked(connection, query, f.device_id, ids):
        found.setdefault(row.device_id, {})[row.key] = row
    return found


def divided(connection: Connection, at: int, ids: Collection[int] | None) -> set[int]:
    """Devices that had parts."""
    there = held_at(_d.registered_at, _d.retired_at, at)
    query = select(_d.parent_id).where(_d.parent_id.is_not(None), there)
    return {row.parent_id for row in _chunked(connection, query, _d.parent_id, ids)}


def allocations(
    connection: Connection, scope: Scope, at: int, ids: Collection[int] | None
) -> list[Record]:
    """What was held, with its workload; nameless where the scope does not allow the project."""
    a, w = t.allocation.c, t.workload.c
    query = (
        select(
            a.id, a.device_id, a.quantity, a.t0, a.cluster, a.device_class,
            w.id.label("workload_id"), w.name, w.project,
        )
        .join(t.attempt, t.attempt.c.id == a.attempt_id)
        .join(t.workload, w.id == t.attempt.c.workload_id)
        .where(held_at(a.t0, a.t1, at))
    )  # fmt: skip
    found = [shown_in(record(row), scope) for row in _chunked(connection, query, a.device_id, ids)]
    return sorted(found, key=lambda row: int(row["id"]))


def quarantined(connection: Connection, at: int, ids: Collection[int] | None) -> dict[int, int]:
    """device → what was kept back because a release was not proven."""
    q = t.quarantine.c
    query = select(q.device_id, q.quantity).where(held_at(q.t0, q.t1, at))
    return _summed(_chunked(connection, query, q.device_id, ids))


def reserved(connection: Connection, at: int, ids: Collection[int] | None) -> dict[int, int]:
    """device → what was kept for somebody, of the periods that have ended."""
    u = t.unheld_segment.c
    query = select(u.device_id, u.quantity).where(u.state == "idle.reserved", u.t0 <= at, u.t1 > at)
    return _summed(_chunked(connection, query, u.device_id, ids))


def open_meters(connection: Connection, ids: Collection[int] | None) -> Iterable[tuple[int, str]]:
    """(device, JSON) of the meter's open state."""
    m = t.device_meter.c
    query = select(m.device_id, m.unheld_json)
    return [(row.device_id, row.unheld_json) for row in _chunked(connection, query, m.device_id, ids)]


def _summed(rows: Iterable[Row[Any]]) -> dict[int, int]:
    total: dict[int, int] = {}
    for row in rows:
        total[row.device_id] = total.get(row.device_id, 0) + row.quantity
    return total


def blind(connection: Connection, at: int) -> set[str]:
    """Clusters that were not seen."""
    c = t.coverage.c
    query = select(c.cluster).where(held_at(c.t0, c.t1, at))
    return set(connection.execute(query).scalars())


# --- what changed between two instants --------------------------------------------------------------
def _within(start: Column[Any], end: Column[Any] | None, window: tuple[int, int]) -> ColumnElement[bool]:
    """Begins or ends after the first instant and not after the second."""
    begins = and_(start > window[0], start <= window[1])
    return begins if end is None else or_(begins, and_(end > window[0], end <= window[1]))


def _of_device(columns: Iterable[Any], table: Any, window: tuple[int, int], limit: int) -> Select[Any]:
    c = table.c
    return (
        select(*columns, _d.uid, _d.cluster, _n.name.label("node"))
        .join(t.device, _d.id == c.device_id)
        .join(t.node, _n.id == _d.node_id)
        .where(_within(c.valid_from, c.valid_to, window))
        .limit(limit)
    )


def changed_conditions(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """Conditions that began or ended."""
    return list(connection.execute(_of_device(t.device_condition.c, t.device_condition, window, limit)))


def changed_facts(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """Facts that began or ended, but for those that came with the device."""
    query = _of_device(t.device_fact.c, t.device_fact, window, limit)
    f = t.device_fact.c
    with_device = and_(f.valid_from <= _d.registered_at, or_(f.valid_to.is_(None), f.valid_to > window[1]))
    return list(connection.execute(query.where(~with_device)))


def changed_pools(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """Memberships that began or ended."""
    return list(connection.execute(_of_device(t.pool_member.c, t.pool_member, window, limit)))


def ended_states(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """Capacity segments that ended, with what followed: the next segment, or what the device is now."""
    c, following = t.capacity_segment.c, t.capacity_segment.alias("following")
    f = following.c
    query = (
        select(
            c.device_id, c.t1, c.availability, c.reason, c.capacity,
            f.availability.label("next_availability"), f.reason.label("next_reason"),
            f.capacity.label("next_capacity"), _d.availability.label("now_availability"),
            _d.reason.label("now_reason"), _d.capacity.label("now_capacity"), _d.has_children, _d.retired_at,
            _d.uid, _d.cluster, _n.name.label("node"),
        )
        .join(t.device, _d.id == c.device_id)
        .join(t.node, _n.id == _d.node_id)
        .outerjoin(following, and_(f.device_id == c.device_id, f.t0 == c.t1))
        .where(c.t1 > window[0], c.t1 <= window[1])
        .limit(limit)
    )  # fmt: skip
    return list(connection.execute(query))


def changed_nodes(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """States of nodes that began or ended, with the node's name."""
    query = (
        select(t.node_state, _n.name, _n.cluster)
        .join(t.node, _n.id == _s.node_id)
        .where(_within(_s.valid_from, _s.valid_to, window))
        .order_by(_s.node_id, _s.version)
        .limit(limit)
    )
    return list(connection.execute(query))


def come_and_gone(connection: Connection, window: tuple[int, int], limit: int) -> list[Row[Any]]:
    """Devices that were registered or retired."""
    query = (
        select(_d.id, _d.uid, _d.cluster, _d.registered_at, _d.retired_at, _d.device_class, _d.model,
               _n.name.label("node"))
        .join(t.node, _n.id == _d.node_id)
        .where(_within(_d.registered_at, _d.retired_at, window))
        .order_by(_d.id)
        .limit(limit)
    )  # fmt: skip
    return list(connection.execute(query))


def names_of_places(connection: Connection, ids: Collection[int]) -> dict[int, tuple[str, str]]:
    """node or device → (its name, its node's name)."""
    found: dict[int, tuple[str, str]] = {}
    for chunk in chunks(sorted(ids)):
        for row in connection.execute(select(_n.id, _n.name).where(_n.id.in_(chunk))):
            found[row.id] = (row.name, row.name)
        query = select(_d.id, _d.uid, _n.name).join(t.node, _n.id == _d.node_id).where(_d.id.in_(chunk))
        found.update((each.id, (each.uid, each.name)) for each in connection.execute(query))
    return found

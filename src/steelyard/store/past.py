"""Reading the store as it was at an instant, or at a size of the log: what a stored cycle worked on.

Instants are those of the control loop, which grow strictly: an interval holds at `at` exactly when
valid_from < at and (valid_to is null or valid_to > at).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import Column, ColumnElement, Connection, Row, Select, and_, case, or_, select

from steelyard.store import tables as t
from steelyard.store.live import served_before
from steelyard.store.workloads import chunks

PastRow = Row[Any]


def _then(start: Column[Any], end: Column[Any], at: int) -> ColumnElement[bool]:
    return and_(start < at, or_(end.is_(None), end > at))


def leaf_bodies(connection: Connection, seqs: Iterable[int]) -> dict[int, bytes]:
    """Bodies of these leaves."""
    found: dict[int, bytes] = {}
    for chunk in chunks(sorted(set(seqs))):
        query = select(t.leaf.c.seq, t.leaf.c.body).where(t.leaf.c.seq.in_(chunk))
        found.update((row.seq, bytes(row.body)) for row in connection.execute(query))
    return found


# --- declared objects ----------------------------------------------------------------------------------
def declared_heads(connection: Connection, kinds: Collection[str]) -> list[PastRow]:
    """(kind, name, version, head_seq) of every version of every object of these kinds, in order."""
    d = t.declared.c
    query = select(d.kind, d.name, d.version, d.head_seq).where(d.kind.in_(sorted(kinds)))
    return list(connection.execute(query.order_by(d.kind, d.name, d.version)))


def declared_versions(connection: Connection, kinds: Collection[str]) -> list[PastRow]:
    """Every version of every object of these kinds."""
    d = t.declared.c
    query = select(d.kind, d.name, d.version, d.labels_json, d.spec_json)
    return list(connection.execute(query.where(d.kind.in_(sorted(kinds)))))


# --- resources -------------------------------------------------------------------------------------------
def nodes(connection: Connection) -> list[PastRow]:
    """Every node with its stream's head."""
    n = t.node.c
    query = select(n.id, n.cluster, n.name, n.simulated, n.head_seq)
    return list(connection.execute(query.order_by(n.id)))


def devices(connection: Connection, at: int) -> list[PastRow]:
    """Devices that were registered, with the pool and flavor of the time."""
    d, m = t.device.c, t.pool_member.c
    member = and_(m.device_id == d.id, _then(m.valid_from, m.valid_to, at))
    query = (
        select(t.device, m.pool, m.flavor)
        .select_from(t.device.outerjoin(t.pool_member, member))
        .where(d.registered_at < at, or_(d.retired_at.is_(None), d.retired_at > at))
    )
    return list(connection.execute(query.order_by(d.id)))


def capacity(connection: Connection, at: int) -> dict[int, tuple[str, str | None, int]]:
    """device id → its availability, reason and capacity of the time, where the period is not that of now."""
    c = t.capacity_segment.c
    query = select(c.device_id, c.availability, c.reason, c.capacity).where(c.t0 < at, c.t1 > at)
    return {row.device_id: (row.availability, row.reason, row.capacity) for row in connection.execute(query)}


def occupied(connection: Connection, at: int) -> dict[int, int]:
    """device id → what was used of it by somebody whom no workload owned, where anything was."""
    c = t.device_condition.c
    query = select(c.device_id, c.occupied).where(_then(c.valid_from, c.valid_to, at), c.occupied > 0)
    return {row.device_id: row.occupied for row in connection.execute(query)}


def replaced_facts(connection: Connection, at: int, keys: Collection[str]) -> dict[tuple[int, str], str]:
    """(device id, key) → the value (JSON) of the time, of facts that are others now."""
    f = t.device_fact.c
    query = select(f.device_id, f.key, f.value_json).where(
        f.valid_to.is_not(None), f.valid_from < at, f.valid_to > at, f.key.in_(sorted(keys))
    )
    return {(row.device_id, row.key): row.value_json for row in connection.execute(query)}


def allocations(connection: Connection, at: int) -> list[PastRow]:
    """What was held, in the order in which it was taken."""
    a = t.allocation.c
    query = select(t.allocation).where(_then(a.t0, a.t1, at)).order_by(a.id)
    return list(connection.execute(query))


def quarantined(connection: Connection, at: int) -> list[PastRow]:
    """What was kept back because a release was not proven."""
    q = t.quarantine.c
    return list(connection.execute(select(q.device_id, q.quantity).where(_then(q.t0, q.t1, at))))


# --- workloads ---------------------------------------------------------------------------------------------
def workloads(connection: Connection, since: int) -> list[PastRow]:
    """Workloads that are live, or have a leaf from `since` on: no other was live at that size of the log."""
    w = t.workload.c
    query = select(
        w.id, w.name, w.queue, w.project, w.priority, w.shape_id, w.spec_json, w.phase, w.attempt,
        w.submitted_at, w.head_seq, w.guaranteed, w.standby, w.activated_at, w.submitter, w.kind,
    ).where(or_(w.phase != "finished", w.head_seq >= since))  # fmt: skip
    return list(connection.execute(query.order_by(w.id)))


def attempts(connection: Connection, numbers: Collection[tuple[int, int]]) -> dict[int, PastRow]:
    """Attempts by workload: of each the one with the number."""
    wanted = dict(numbers)
    a = t.attempt.c
    found: dict[int, PastRow] = {}
    for chunk in chunks(sorted(wanted)):
        query: Select[Any] = select(
            a.id, a.workload_id, a.number, a.eligible, a.not_before, a.avoid_json, a.placed, a.started,
            a.joins_off,
            case((a.number > 1, served_before()), else_=0).label("served"),
        )
        for row in connection.execute(query.where(a.workload_id.in_(chunk))):
            if wanted[row.workload_id] == row.number:
                found[row.workload_id] = row
    return found


def members(connection: Connection, attempt_ids: Collection[int]) -> list[PastRow]:
    """Members of these attempts, in the order in which they were made."""
    m = t.member.c
    found: list[PastRow] = []
    for chunk in chunks(sorted(attempt_ids)):
        query = select(
            m.id, m.attempt_id, m.role, m.idx, m.cluster, m.node_id, m.apart, m.leaving_at, m.released_at,
            m.joined_at,
        ).where(m.attempt_id.in_(chunk))
        found += connection.execute(query.order_by(m.id))
    return found


def shapes(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """Shape bodies by id."""
    found: dict[int, str] = {}
    for chunk in chunks(sorted(ids)):
        query = select(t.shape.c.id, t.shape.c.body_json).where(t.shape.c.id.in_(chunk))
        found.update((row.id, row.body_json) for row in connection.execute(query))
    return found


def decisions_at(connection: Connection, instants: Collection[int]) -> list[str]:
    """What the cycles of these instants decided (JSON)."""
    found: list[str] = []
    for chunk in chunks(sorted(set(instants))):
        query = select(t.cycle.c.decisions_json).where(t.cycle.c.at.in_(chunk))
        found += connection.execute(query).scalars()
    return found

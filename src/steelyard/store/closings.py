"""Reading when pools were closed, what was verified in them, and which types of resources were admitted."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t
from steelyard.store.scoped import Record, record

_c, _v, _a = t.pool_closing.c, t.verification.c, t.resource_admission.c


def open_closings(connection: Connection) -> list[Record]:
    """Closings that stand, the oldest first."""
    query = select(t.pool_closing).where(_c.opened_at.is_(None)).order_by(_c.id)
    return [record(row) for row in connection.execute(query)]


def closings_of(connection: Connection, pool: str, limit: int) -> list[Record]:
    """Closings of a pool, the newest first."""
    query = select(t.pool_closing).where(_c.pool == pool).order_by(_c.id.desc()).limit(limit)
    return [record(row) for row in connection.execute(query)]


def newest_closings(connection: Connection, cause: str) -> list[Record]:
    """Of each pool the newest closing of a cause, open or not."""
    newest = select(func.max(_c.id)).where(_c.cause == cause).group_by(_c.pool)
    query = select(t.pool_closing).where(_c.id.in_(newest)).order_by(_c.id)
    return [record(row) for row in connection.execute(query)]


def verifications(connection: Connection, *, standing: bool = False) -> list[Record]:
    """Verification records, the newest first; `standing`: only those that did not end."""
    query = select(t.verification).order_by(_v.id.desc())
    if standing:
        query = query.where(_v.ended_at.is_(None))
    return [record(row) for row in connection.execute(query)]


def get_verification(connection: Connection, verification_id: int) -> Record | None:
    """One record."""
    row = connection.execute(select(t.verification).where(_v.id == verification_id)).first()
    return None if row is None else record(row)


def admissions(connection: Connection) -> list[Record]:
    """Admissions of types of resources, the newest first."""
    query = select(t.resource_admission).order_by(_a.id.desc())
    return [record(row) for row in connection.execute(query)]


def get_admission(connection: Connection, admission_id: int) -> Record | None:
    """One admission."""
    row = connection.execute(select(t.resource_admission).where(_a.id == admission_id)).first()
    return None if row is None else record(row)


def admission_of(connection: Connection, family: str, model: str) -> Record | None:
    """The admission of a type."""
    row = connection.execute(
        select(t.resource_admission).where(_a.family == family, _a.model == model)
    ).first()
    return None if row is None else record(row)


def held_devices(connection: Connection, attempt_id: int) -> list[Record]:
    """What an attempt held: flavor, class, family, model and pool of then, simulated or not."""
    d, a, p = t.device.c, t.allocation.c, t.pool_member.c
    query = (
        select(
            a.flavor, d.device_class.label("device_class"), d.family, d.model, d.simulated, p.pool, a.quantity
        )
        .join(t.device, d.id == a.device_id)
        .outerjoin(
            t.pool_member,
            (p.device_id == d.id)
            & (p.valid_from <= a.t0)
            & ((p.valid_to.is_(None)) | (p.valid_to > a.t0)),
        )
        .where(a.attempt_id == attempt_id)
        .order_by(a.id)
    )
    return [record(row) for row in connection.execute(query)]


def families(connection: Connection) -> set[str]:
    """Families of devices that were ever registered."""
    return {str(name) for name in connection.execute(select(t.device.c.family).distinct()).scalars()}


def pool_sums(connection: Connection) -> list[Record]:
    """Members of pools now, counted: `devices` and their `capacity` by pool, flavor, class, model and state.
    What is divided is not counted, its parts are."""
    d, p = t.device.c, t.pool_member.c
    by = (p.pool, p.flavor, d.device_class.label("device_class"), d.model, d.availability, d.simulated)
    query = (
        select(*by, func.count().label("devices"), func.sum(d.capacity).label("capacity"))
        .join(t.device, d.id == p.device_id)
        .where(p.valid_to.is_(None), d.retired_at.is_(None), d.has_children.is_(False))
        .group_by(p.pool, p.flavor, d.device_class, d.model, d.availability, d.simulated)
        .order_by(p.pool, p.flavor, d.model)
    )
    return [{**record(row), "capacity": int(row.capacity)} for row in connection.execute(query)]


def pool_nodes(connection: Connection, pool: str) -> list[str]:
    """Names of the nodes of which a pool has devices now."""
    d, p, n = t.device.c, t.pool_member.c, t.node.c
    query = (
        select(n.name)
        .distinct()
        .select_from(t.pool_member.join(t.device, d.id == p.device_id).join(t.node, n.id == d.node_id))
        .where(p.pool == pool, p.valid_to.is_(None), d.retired_at.is_(None))
        .order_by(n.name)
    )
    return [str(name) for name in connection.execute(query).scalars()]


def node_labels(connection: Connection, clusters: Collection[str] | None = None) -> list[Record]:
    """Every node with its labels: cluster, name, labels_json."""
    n = t.node.c
    query = select(n.cluster, n.name, n.labels_json).order_by(n.cluster, n.name)
    if clusters is not None:
        query = query.where(n.cluster.in_(sorted(clusters)))
    return [record(row) for row in connection.execute(query)]


def node_label_history(connection: Connection) -> list[Record]:
    """Each state of each node, the oldest first: node, cluster, labels_json, set_by and its interval."""
    n, s = t.node.c, t.node_state.c
    query = (
        select(n.name, n.cluster, s.labels_json, s.set_by, s.valid_from, s.valid_to)
        .join(t.node, n.id == s.node_id)
        .order_by(s.node_id, s.version)
    )
    return [record(row) for row in connection.execute(query)]


def refusals_with(connection: Connection, code: str, limit: int) -> list[Record]:
    """The newest refusals of which some reason has a code: at, project, kind, reasons_json."""
    r = t.refusal.c
    query = select(r.at, r.project, r.kind, r.reasons_json).where(r.reasons_json.like(f'%"{code}"%'))
    return [record(row) for row in connection.execute(query.order_by(r.id.desc()).limit(limit))]


def newest_specs(connection: Connection, limit: int) -> list[Record]:
    """The newest workloads: kind and spec."""
    w = t.workload.c
    query = select(w.id, w.kind, w.project, w.spec_json).order_by(w.id.desc()).limit(limit)
    return [record(row) for row in connection.execute(query)]

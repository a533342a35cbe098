"""Reading resources: clusters, nodes, devices with their facts, and who holds what now."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, Row, Select, select

from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, page_size, record
from steelyard.store.workloads import chunks

_d, _n, _m = t.device.c, t.node.c, t.pool_member.c
_IN_POOL = (_m.device_id == _d.id) & (_m.valid_to.is_(None))


def list_clusters(connection: Connection) -> list[Record]:
    """Declared clusters with their spec, and when each was last observed; by name."""
    query = (
        select(
            t.declared.c.name,
            t.declared.c.spec_json,
            t.declared.c.labels_json,
            t.observation.c.as_of,
            t.observation.c.reachable,
            t.leaf.c.body.label("leaf"),  # the last that speaks of the cluster
        )
        .outerjoin(t.observation, t.observation.c.cluster == t.declared.c.name)
        .outerjoin(t.leaf, t.leaf.c.seq == t.observation.c.head_seq)
        .where(t.declared.c.kind == "Cluster", t.declared.c.valid_to.is_(None))
        .order_by(t.declared.c.name)
    )
    return [record(row) for row in connection.execute(query)]


def ever_declared(connection: Connection, kind: str) -> list[str]:
    """Names of objects of a kind that there are or were."""
    query = select(t.declared.c.name).where(t.declared.c.kind == kind).distinct()
    return sorted(connection.execute(query).scalars())


def _devices(
    *, cluster: str | None = None, device_class: str | None = None, pool: str | None = None
) -> Select[tuple[object, ...]]:
    query: Select[tuple[object, ...]] = select(t.device, _m.pool, _m.flavor, _n.name.label("node"))
    query = query.join(t.node, _n.id == _d.node_id).outerjoin(t.pool_member, _IN_POOL)
    query = query.where(_d.retired_at.is_(None))
    for column, value in ((_d.cluster, cluster), (_d.device_class, device_class), (_m.pool, pool)):
        if value is not None:
            query = query.where(column == value)
    return query.order_by(_d.node_id, _d.id)


def list_nodes(
    connection: Connection,
    *,
    cluster: str | None = None,
    device_class: str | None = None,
    pool: str | None = None,
    after: int | None = None,
    limit: int = 50,
) -> list[Record]:
    """Nodes by id; with a class or a pool only those that have such a device."""
    query = select(t.node).order_by(_n.id).limit(page_size(limit))
    if cluster is not None:
        query = query.where(_n.cluster == cluster)
    if after is not None:
        query = query.where(_n.id > after)
    if device_class is not None or pool is not None:
        wanted = _devices(device_class=device_class, pool=pool).with_only_columns(_d.node_id).order_by(None)
        query = query.where(_n.id.in_(wanted))
    return [record(row) for row in connection.execute(query)]


def names_of_nodes(connection: Connection) -> list[Row[Any]]:
    """(id, cluster, name) of every node."""
    return list(connection.execute(select(_n.id, _n.cluster, _n.name)))


def nodes_of(connection: Connection, node_ids: Collection[int]) -> list[Record]:
    """These nodes."""
    found: list[Record] = []
    for chunk in chunks(sorted(node_ids)):
        found += [record(row) for row in connection.execute(select(t.node).where(_n.id.in_(chunk)))]
    return found


def get_node(connection: Connection, node_id: int) -> Record | None:
    """One node."""
    row = connection.execute(select(t.node).where(_n.id == node_id)).first()
    return None if row is None else record(row)


def devices_on(
    connection: Connection,
    node_ids: Collection[int],
    *,
    device_class: str | None = None,
    pool: str | None = None,
) -> list[Record]:
    """Devices of these nodes that are not retired, with pool and flavor."""
    found: list[Record] = []
    for chunk in chunks(sorted(node_ids)):
        query = _devices(device_class=device_class, pool=pool).where(_d.node_id.in_(chunk))
        found += [record(row) for row in connection.execute(query)]
    return found


def census(connection: Connection) -> Iterator[Record]:
    """Of every device that is not retired the columns by which it is found, counted and judged, one after
    the other: there may be a hundred thousand."""
    query = (
        select(
            _d.id, _d.node_id, _d.cluster, _d.device_class.label("class"), _d.capacity, _d.availability,
            _d.reason, _d.has_children, _d.simulated, _m.pool,
        )
        .outerjoin(t.pool_member, _IN_POOL)
        .where(_d.retired_at.is_(None))
    )  # fmt: skip
    result = connection.execute(query)
    names = tuple(result.keys())
    return (dict(zip(names, row, strict=True)) for row in result)


def devices_of(connection: Connection, device_ids: Collection[int]) -> list[Record]:
    """These devices, as far as they are not retired, with pool and flavor, by node."""
    found: list[Record] = []
    for chunk in chunks(sorted(device_ids)):
        found += [record(row) for row in connection.execute(_devices().where(_d.id.in_(chunk)))]
    return found


def get_device(connection: Connection, device_id: int) -> Record | None:
    """One device, also a retired one, with pool, flavor and node."""
    query = (
        select(t.device, _m.pool, _m.flavor, _n.name.label("node"))
        .join(t.node, _n.id == _d.node_id)
        .outerjoin(t.pool_member, _IN_POOL)
        .where(_d.id == device_id)
    )
    row = connection.execute(query).first()
    return None if row is None else record(row)


def devices_named(connection: Connection, uid: str, cluster: str | None = None) -> list[Record]:
    """Devices (id, cluster) with this UID, those that are not retired first; of one cluster or of all."""
    query = select(_d.id, _d.cluster, _d.retired_at).where(_d.uid == uid)
    if cluster is not None:
        query = query.where(_d.cluster == cluster)
    return [record(row) for row in connection.execute(query.order_by(_d.retired_at.is_not(None), _d.id))]


def nodes_named(connection: Connection, name: str) -> list[Record]:
    """Nodes with this name, or whose name with its cluster before it (`CLUSTER/NAME`) it is."""
    cluster, _, rest = name.partition("/")
    query = select(t.node).where((_n.name == name) | ((_n.cluster == cluster) & (_n.name == rest)))
    return [record(row) for row in connection.execute(query.order_by(_n.id))]


def places_of_uid(connection: Connection, name: str) -> list[Record]:
    """Devices that are not retired with this UID, or with this `CLUSTER/UID`, with their node's name."""
    cluster, _, rest = name.partition("/")
    query = (
        select(t.device, _n.name.label("node"))
        .join(t.node, _n.id == _d.node_id)
        .where((_d.uid == name) | ((_d.cluster == cluster) & (_d.uid == rest)), _d.retired_at.is_(None))
    )
    return [record(row) for row in connection.execute(query.order_by(_d.id))]


def provenances(connection: Connection, device_ids: Collection[int], key: str = "model") -> dict[int, str]:
    """device id → how a fact of it is known now."""
    f = t.device_fact.c
    found: dict[int, str] = {}
    for chunk in chunks(sorted(device_ids)):
        query = select(f.device_id, f.provenance).where(
            f.device_id.in_(chunk), f.key == key, f.valid_to.is_(None)
        )
        found.update((row.device_id, row.provenance) for row in connection.execute(query))
    return found


def facts_of(connection: Connection, device_id: int) -> list[Record]:
    """Every fact of a device, past ones too, in order of time."""
    f = t.device_fact.c
    query = select(t.device_fact).where(f.device_id == device_id).order_by(f.key, f.version)
    return [record(row) for row in connection.execute(query)]


def open_facts(connection: Connection, device_ids: Collection[int]) -> list[Record]:
    """Facts of these devices as they are now: device_id, key, value_json, provenance, source, version."""
    f = t.device_fact.c
    columns = (f.device_id, f.key, f.value_json, f.provenance, f.source, f.version)
    found: list[Record] = []
    for chunk in chunks(sorted(device_ids)):
        query = select(*columns).where(f.device_id.in_(chunk), f.valid_to.is_(None))
        found += [record(row) for row in connection.execute(query)]
    return found


def open_conditions(connection: Connection, device_ids: Collection[int] | None) -> list[Row[Any]]:
    """What is said now of these devices, or of all, where they are not simply healthy."""
    c = t.device_condition.c
    base = select(t.device_condition).where(c.valid_to.is_(None))
    groups = [None] if device_ids is None else list(chunks(sorted(device_ids)))
    queries = (base if group is None else base.where(c.device_id.in_(group)) for group in groups)
    return [row for query in queries for row in connection.execute(query)]


def conditions_of(connection: Connection, device_id: int) -> list[Row[Any]]:
    """All that was ever said of a device, in order of time."""
    c = t.device_condition.c
    query = select(t.device_condition).where(c.device_id == device_id).order_by(c.version)
    return list(connection.execute(query))


def registrations(
    connection: Connection, before: int | None, limit: int | None, outcome: str | None = None
) -> list[Record]:
    """What became of devices that were not simply taken in, the newest first."""
    r = t.registration.c
    query = select(t.registration).order_by(r.id.desc())
    if outcome is not None:
        query = query.where(r.outcome == outcome)
    if before is not None:
        query = query.where(r.id < before)
    if limit is not None:
        query = query.limit(limit)
    return [record(row) for row in connection.execute(query)]


def given_up(connection: Connection, ids: Iterable[int] | None) -> list[Record]:
    """Devices that operators gave up and that are not retired yet; by these registrations, or all (None)."""
    r = t.registration.c
    query = (
        select(r.device_id, r.reason, r.set_by)
        .join(t.device, _d.id == r.device_id)
        .where(r.outcome == "retired", r.source == "operator", _d.retired_at.is_(None))
    )
    if ids is not None:
        query = query.where(r.id.in_(sorted(ids)))
    return [record(row) for row in connection.execute(query)]


def retired_between(connection: Connection, window: tuple[int, int]) -> dict[int, tuple[str, str | None]]:
    """device → (who, why) of those that were retired after the first instant, up to the second."""
    r = t.registration.c
    query = select(r.device_id, r.set_by, r.reason).where(
        r.outcome == "retired", r.at > window[0], r.at <= window[1]
    )
    return {row.device_id: (row.set_by, row.reason) for row in connection.execute(query)}


def registered_before(connection: Connection, before: int | None, limit: int) -> list[Record]:
    """Devices as they were registered, the newest first: with node, source and provenance of their model."""
    f = t.device_fact.c
    first = (f.device_id == _d.id) & (f.key == "model") & (f.version == 1)
    query = (
        select(
            _d.id, _d.registered_at.label("at"), _d.cluster, _n.name.label("node"), _d.uid, f.source,
            f.provenance,
        )
        .join(t.node, _n.id == _d.node_id)
        .outerjoin(t.device_fact, first)
        .order_by(_d.id.desc())
        .limit(limit)
    )  # fmt: skip
    if before is not None:
        query = query.where(_d.id < before)
    return [record(row) for row in connection.execute(query)]


def availability_of(connection: Connection, device_id: int) -> list[Record]:
    """Closed capacity segments of a device in order of time."""
    c = t.capacity_segment.c
    query = select(t.capacity_segment).where(c.device_id == device_id).order_by(c.t0)
    return [record(row) for row in connection.execute(query)]


def pools_of(connection: Connection, device_id: int) -> list[Record]:
    """Which pools a device belonged to, and when."""
    query = select(t.pool_member).where(_m.device_id == device_id).order_by(_m.valid_from, _m.version)
    return [record(row) for row in connection.execute(query)]


def holdings_of(connection: Connection, scope: Scope, device_id: int, since: int, limit: int) -> list[Record]:
    """Ended stages in which somebody held a device, the newest first, of those that began at `since` or
    later; what the scope does not allow is nameless."""
    h, w = t.holding_segment.c, t.workload.c
    query = (
        select(h.attempt_id, h.quantity, h.t0, h.t1, h.project, w.id.label("workload_id"), w.name)
        .join(t.workload, w.id == h.workload_id)
        .where(h.t0 >= since, h.device_id == device_id)
        .order_by(h.t0.desc())
        .limit(limit)
    )
    return [shown_in(record(row), scope) for row in connection.execute(query)]


def holdings_within(
    connection: Connection, scope: Scope, device_id: int, window: tuple[int, int], longest: int
) -> list[Record]:
    """(project, t0, t1, quantity) of ended stages in which a device was held within a window, of those that
    began at most `longest` before it; `project` is None where the scope does not allow it."""
    h = t.holding_segment.c
    query = select(h.project, h.t0, h.t1, h.quantity).where(
        h.device_id == device_id, h.t0 >= window[0] - longest, h.t0 < window[1], h.t1 > window[0]
    )
    return [
        {**record(row), "project": row.project if scope.allows(row.project) else None}
        for row in connection.execute(query)
    ]


def unheld_of(connection: Connection, device_id: int, since: int) -> list[Record]:
    """Closed unheld segments (state, t0, t1, quantity) of a device that end after an instant."""
    u = t.unheld_segment.c
    query = select(u.state, u.t0, u.t1, u.quantity).where(u.device_id == device_id, u.t1 > since)
    return [record(row) for row in connection.execute(query)]


# --- what is held now -------------------------------------------------------------------------------
def open_allocations(
    connection: Connection, scope: Scope, device_ids: Collection[int] | None = None
) -> list[Record]:
    """Open allocations with their workload. Quantities are of everybody; `project`, `name` and
    `workload_id` are None where the scope does not allow the project."""
    a, w = t.allocation.c, t.workload.c
    base = (
        select(
            a.id, a.device_id, a.quantity, a.t0, a.cluster, a.device_class,
            w.id.label("workload_id"), w.name, w.project,
        )
        .join(t.attempt, t.attempt.c.id == a.attempt_id)
        .join(t.workload, w.id == t.attempt.c.workload_id)
        .where(a.t1.is_(None))
    )  # fmt: skip
    groups = [None] if device_ids is None else list(chunks(sorted(device_ids)))
    found = []
    for group in groups:
        query = base if group is None else base.where(a.device_id.in_(group))
        for row in connection.execute(query):
            found.append(shown_in(record(row), scope))
    return sorted(found, key=lambda row: int(row["id"]))  # in SQL the order would cost the index of open ones


def shown_in(row: Record, scope: Scope) -> Record:
    return (
        row if scope.allows(row["project"]) else {**row, "workload_id": None, "name": None, "project": None}
    )


def open_quarantines(connection: Connection, device_ids: Collection[int] | None = None) -> list[Record]:
    """Quantities that are kept back because a release was not proven."""
    q = t.quarantine.c
    base = select(t.quarantine).where(q.t1.is_(None)).order_by(q.device_id, q.attempt_id)
    if device_ids is None:
        return [record(row) for row in connection.execute(base)]
    return [
        record(row)
        for group in chunks(sorted(device_ids))
        for row in connection.execute(base.where(q.device_id.in_(group)))
    ]


def hold_plans(connection: Connection) -> list[str]:
    """The places kept for preemptors (JSON)."""
    return [
        row.plan_json for row in connection.execute(select(t.hold.c.plan_json).order_by(t.hold.c.attempt_id))
    ]


def observations(connection: Connection) -> dict[str, Record]:
    """cluster → when it was last observed, and whether it answers."""
    return {row.cluster: record(row) for row in connection.execute(select(t.observation))}


def outages(connection: Connection, flavor: str) -> list[str]:
    """Why devices of a flavor are out of service now, each reason once."""
    query = select(_d.reason).join(t.pool_member, _IN_POOL).where(_m.flavor == flavor, _d.reason.is_not(None))
    return [str(row[0]) for row in connection.execute(query.distinct().order_by(_d.reason))]

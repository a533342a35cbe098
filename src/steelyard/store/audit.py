"""Reading what audits read: keys of the log, checkpoints, heads of objects, versions beside their leaves."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import Column, Connection, Row, Select, Table, func, select

from steelyard.evidence.leaf import LOG_KIND, Head
from steelyard.evidence.merkle import Frontier
from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse
from steelyard.store import tables as t
from steelyard.store.scoped import contains


class LogKeyRow(NamedTuple):
    """A key that signs, or signed, for the log."""

    fingerprint: str
    name: str
    vkey: str
    from_seq: int
    created_at: int
    retired_at: int | None


class StoredLeaf(NamedTuple):
    """A leaf as it lies in its row."""

    seq: int
    hash: bytes
    body: bytes


class Versioned(NamedTuple):
    """An object whose row carries its version and stream head."""

    kind: str
    id: int | str
    version: int
    head: Head


def log_keys(connection: Connection) -> list[LogKeyRow]:
    """All keys of the log, the first one first."""
    k = t.log_key.c
    query = select(k.fingerprint, k.name, k.vkey, k.from_seq, k.created_at, k.retired_at)
    return [LogKeyRow(*row) for row in connection.execute(query.order_by(k.from_seq, k.created_at))]


def log_frontier(connection: Connection) -> tuple[str, Frontier]:
    """(origin, frontier) of the log as committed."""
    row = connection.execute(select(t.log).where(t.log.c.id == 1)).one()
    return row.origin, Frontier.from_bytes(row.size, bytes(row.frontier))


def checkpoint_before(connection: Connection, at: int) -> tuple[int, str] | None:
    """(size, note) of the newest checkpoint signed at or before an instant."""
    c = t.checkpoint.c
    row = connection.execute(
        select(c.size, c.note).where(c.ts <= at).order_by(c.size.desc()).limit(1)
    ).first()
    return None if row is None else (row.size, row.note)


def oldest_checkpoint(connection: Connection) -> tuple[int, str] | None:
    """(size, note) of the first checkpoint that was signed."""
    c = t.checkpoint.c
    row = connection.execute(select(c.size, c.note).order_by(c.size).limit(1)).first()
    return None if row is None else (row.size, row.note)


def checkpoints(connection: Connection, limit: int) -> list[tuple[int, int, str, str]]:
    """(size, ts, reason, note) of the newest signed checkpoints, the newest first."""
    c = t.checkpoint.c
    query = select(c.size, c.ts, c.reason, c.note).order_by(c.size.desc()).limit(limit)
    return [(row.size, row.ts, row.reason, row.note) for row in connection.execute(query)]


def streams_page(
    connection: Connection, *, kind: str | None, text: str, after: str, limit: int
) -> list[tuple[str, int, int]]:
    """(name, leaves, seq of the last one) of the streams in the head table, by name. `kind`: what the name
    begins with (project, actor, cluster, system, object)."""
    c = t.stream_head.c
    query = select(c.name, c.n, c.seq).where(c.name > after).order_by(c.name).limit(limit)
    if kind is not None:
        query = query.where((c.name == kind) | c.name.startswith(f"{kind}/", autoescape=True))
    if text:
        query = query.where(contains(c.name, text))
    return [(row.name, row.n, row.seq) for row in connection.execute(query)]


def leaves_before(connection: Connection, before: int | None, limit: int) -> list[StoredLeaf]:
    """The newest leaves, or those before one, the newest first."""
    query = select(t.leaf.c.seq, t.leaf.c.hash, t.leaf.c.body).order_by(t.leaf.c.seq.desc()).limit(limit)
    if before is not None:
        query = query.where(t.leaf.c.seq < before)
    return [StoredLeaf(row.seq, bytes(row.hash), bytes(row.body)) for row in connection.execute(query)]


def stored_leaves(connection: Connection, start: int = 0, end: int | None = None) -> Iterator[StoredLeaf]:
    """Leaves start…end−1 in order, with the hashes that their rows carry."""
    query = select(t.leaf.c.seq, t.leaf.c.hash, t.leaf.c.body).where(t.leaf.c.seq >= start)
    if end is not None:
        query = query.where(t.leaf.c.seq < end)
    ordered = query.order_by(t.leaf.c.seq)
    for row in connection.execution_options(yield_per=2000).execute(ordered):
        yield StoredLeaf(row.seq, bytes(row.hash), bytes(row.body))


def page_of_leaves(connection: Connection, after: int, limit: int) -> list[StoredLeaf]:
    """The leaves that follow `after`, in order of the log."""
    query = select(t.leaf.c.seq, t.leaf.c.hash, t.leaf.c.body).where(t.leaf.c.seq > after)
    rows = connection.execute(query.order_by(t.leaf.c.seq).limit(limit))
    return [StoredLeaf(row.seq, bytes(row.hash), bytes(row.body)) for row in rows]


def leaf_seqs(
    connection: Connection, *, action: str | None = None, kind: str | None = None, limit: int = 20
) -> list[int]:
    """The newest leaves of an action or about a kind of object, oldest first."""
    query = select(t.leaf.c.seq)
    if action is not None:
        query = query.where(t.leaf.c.action == action)
    if kind is not None:
        query = query.where(t.leaf.c.object_kind == kind)
    rows = connection.execute(query.order_by(t.leaf.c.seq.desc()).limit(limit)).scalars()
    return sorted(int(seq) for seq in rows)


def table_head(connection: Connection, stream: str) -> Head | None:
    """The head of a stream that is kept in the head table."""
    row = connection.execute(select(t.stream_head).where(t.stream_head.c.name == stream)).first()
    return None if row is None else Head(row.n, row.seq, bytes(row.hash))


# --- objects whose rows carry their heads ----------------------------------------------------------
#: object kind of leaves → table and key, of objects that have one row
_ONE_ROW: dict[str, tuple[Table, Column[int] | Column[str], str | None]] = {
    "workload": (t.workload, t.workload.c.id, "workload"),
    "refusal": (t.refusal, t.refusal.c.id, "refusal"),
    "user": (t.user, t.user.c.id, "user"),
    "node": (t.node, t.node.c.id, "node"),
    "observation": (t.observation, t.observation.c.cluster, None),
    "release": (t.unproven_release, t.unproven_release.c.attempt_id, "release"),
    "flag": (t.flag, t.flag.c.id, "flag"),
    "closing": (t.pool_closing, t.pool_closing.c.id, "closing"),
    "admission": (t.resource_admission, t.resource_admission.c.id, "admission"),
    "verification": (t.verification, t.verification.c.id, "verification"),
}


def object_head(connection: Connection, kind: str, object_id: str) -> Head | None:
    """Where an object's own stream stands; None where there is no such object."""
    if kind == LOG_KIND:
        return table_head(connection, f"object/{kind}/{object_id}")
    known = _ONE_ROW.get(kind)
    if known is None:
        d = t.declared.c
        query = select(d.head_n, d.head_seq, d.head_hash).where(
            func.lower(d.kind) == kind, d.name == object_id
        )
        row = connection.execute(query.order_by(d.version.desc()).limit(1)).first()
    else:
        table, column, id_kind = known
        try:
            key: int | str = object_id if id_kind is None else parse(id_kind, object_id)
        except InvalidError:
            return None
        c = table.c
        row = connection.execute(select(c.head_n, c.head_seq, c.head_hash).where(column == key)).first()
    if row is None or row.head_hash is None:
        return None
    return Head(row.head_n, row.head_seq, bytes(row.head_hash))


def versioned_objects(connection: Connection) -> Iterator[Versioned]:
    """Every object whose row carries a version and a head. A refusal is written once: version 1."""
    for kind, (table, key, _) in _ONE_ROW.items():
        version = table.c.version if "version" in table.c else None
        c = table.c
        columns = [key.label("key"), c.head_n, c.head_seq, c.head_hash]
        query: Select[tuple[object, ...]] = select(*columns, *([] if version is None else [version]))
        for row in connection.execution_options(yield_per=2000).execute(query):
            head = Head(row.head_n, row.head_seq, bytes(row.head_hash or b""))
            yield Versioned(kind, row.key, 1 if version is None else row.version, head)
    yield from _declared_objects(connection)


def _declared_objects(connection: Connection) -> Iterator[Versioned]:
    d = t.declared.c
    newest = select(d.kind, d.name, func.max(d.version).label("version")).group_by(d.kind, d.name).subquery()
    query = select(d.kind, d.name, d.version, d.valid_to, d.head_n, d.head_seq, d.head_hash).join(
        newest, (newest.c.kind == d.kind) & (newest.c.name == d.name) & (newest.c.version == d.version)
    )
    for row in connection.execute(query):
        head = Head(row.head_n, row.head_seq, bytes(row.head_hash or b""))
        yield Versioned(row.kind.lower(), row.name, row.version, head)


def device_facts(connection: Connection) -> Iterator[dict[str, object]]:
    """Every fact of every device with its provenance and interval."""
    f = t.device_fact.c
    query = select(
        f.device_id, f.key, f.value_json, f.provenance, f.source, f.at, f.valid_from, f.valid_to, f.version
    ).order_by(f.device_id, f.key, f.version)
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield dict(row._mapping)


def all_devices(connection: Connection) -> list[dict[str, object]]:
    """Every device there ever was, with its node."""
    d, n = t.device.c, t.node.c
    query = select(
        d.id, d.uid, d.cluster, n.name.label("node"), d.device_class.label("device_class"), d.family, d.model,
        d.memory, d.has_children, d.simulated, d.registered_at, d.retired_at,
    ).join(t.node, n.id == d.node_id)  # fmt: skip
    return [dict(row._mapping) for row in connection.execute(query.order_by(d.id))]


def all_nodes(connection: Connection) -> list[dict[str, object]]:
    """Every node with its labels as they are now."""
    n = t.node.c
    query = select(n.id, n.cluster, n.name, n.labels_json, n.simulated).order_by(n.id)
    return [dict(row._mapping) for row in connection.execute(query)]


def node_states(connection: Connection) -> Iterator[dict[str, object]]:
    """Every state and label set of every node with its interval."""
    s = t.node_state.c
    query = select(t.node_state).order_by(s.node_id, s.version)
    for row in connection.execution_options(yield_per=2000).execute(query):
        yield dict(row._mapping)


def conditions(connection: Connection) -> Iterator[Row[Any]]:
    """Every time in which something spoke against a device, or a stranger was on it."""
    c = t.device_condition.c
    query = select(t.device_condition).order_by(c.device_id, c.version)
    yield from connection.execution_options(yield_per=2000).execute(query)


def all_flags(connection: Connection) -> Iterator[dict[str, object]]:
    """Every flag there ever was."""
    for row in connection.execute(select(t.flag).order_by(t.flag.c.id)):
        yield dict(row._mapping)

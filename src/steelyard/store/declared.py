"""Reading declared objects and the intervals derived from them: edges, bindings, limits, counters."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, func, or_, select

from steelyard.evidence.leaf import Head
from steelyard.model.organisation import Binding, OrgEdge, RoleName, Scope
from steelyard.model.policy import Limit, OnExceed, OnLowered
from steelyard.store import tables as t
from steelyard.store.declared_scope import DeclaredKey, visible_keys

FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class DeclaredRow:
    """One version of a declared object; `valid_to` None: the current one."""

    id: int
    kind: str
    name: str
    version: int
    valid_from: int
    valid_to: int | None
    labels: dict[str, str]
    spec: dict[str, Any]
    digest: str
    head: Head

    @property
    def key(self) -> DeclaredKey:
        """(kind, name)."""
        return self.kind, self.name


@dataclass(frozen=True, slots=True)
class BindingRow:
    """An open binding and the declared object it comes from."""

    id: int
    name: str
    binding: Binding


@dataclass(frozen=True, slots=True)
class LimitRow:
    """An open limit and the declared object (`Queue/NAME`) it comes from."""

    id: int
    declared_by: str
    limit: Limit


def _declared(row: Row[Any]) -> DeclaredRow:
    return DeclaredRow(
        row.id,
        row.kind,
        row.name,
        row.version,
        row.valid_from,
        row.valid_to,
        json.loads(row.labels_json),
        json.loads(row.spec_json),
        row.digest,
        Head(row.head_n, row.head_seq, bytes(row.head_hash or b"")),
    )


def _within(rows: list[DeclaredRow], scope: Scope) -> list[DeclaredRow]:
    if scope.projects is None:
        return rows
    seen = visible_keys({row.key: row.spec for row in rows}, scope)
    return [row for row in rows if row.key in seen]


def current(connection: Connection, scope: Scope) -> list[DeclaredRow]:
    """The current version of every object within the scope."""
    query = select(t.declared).where(t.declared.c.valid_to.is_(None)).order_by(t.declared.c.id)
    return _within([_declared(row) for row in connection.execute(query)], scope)


def valid_at(connection: Connection, scope: Scope, at: int) -> list[DeclaredRow]:
    """The versions that were valid at an instant, within the scope as it would have been then."""
    d = t.declared.c
    query = (
        select(t.declared)
        .where(d.valid_from <= at, or_(d.valid_to.is_(None), d.valid_to > at))
        .order_by(d.kind, d.name)
    )
    return _within([_declared(row) for row in connection.execute(query)], scope)


def history(connection: Connection, scope: Scope, kind: str, name: str) -> list[DeclaredRow]:
    """All versions of an object, newest first; none where the object is not within the scope."""
    d = t.declared.c
    query = select(t.declared).where(d.kind == kind, d.name == name).order_by(d.version.desc())
    rows = [_declared(row) for row in connection.execute(query)]
    if not rows or scope.projects is None:
        return rows
    context = {row.key: row.spec for row in current(connection, Scope.system())}
    context.setdefault(rows[0].key, rows[0].spec)
    return rows if rows[0].key in visible_keys(context, scope) else []


def newest(
    connection: Connection, scope: Scope, keys: Iterable[DeclaredKey]
) -> dict[DeclaredKey, DeclaredRow]:
    """The newest version of each object, also where it was retired. For writers: an unlimited scope."""
    wanted = set(keys)
    if not wanted or scope.projects is not None:
        return {}
    d = t.declared.c
    query = select(t.declared).where(d.name.in_(sorted({name for _, name in wanted})))
    found: dict[DeclaredKey, DeclaredRow] = {}
    for row in connection.execute(query.order_by(d.version)):
        if (row.kind, row.name) in wanted:
            found[row.kind, row.name] = _declared(row)
    return found


# Asked at almost every request: to build it takes longer than to run it.
_COUNTERS = select(t.counter.c.name, t.counter.c.value)


def counters(connection: Connection) -> dict[str, int]:
    """Version counters by name. One that is not there yet stands at 0."""
    return {name: value for name, value in connection.execute(_COUNTERS)}


def edges(connection: Connection, *, only_open: bool = False) -> list[OrgEdge]:
    """Edges of the organisation, closed ones too unless `only_open`."""
    query = select(t.org_edge)
    if only_open:
        query = query.where(t.org_edge.c.valid_to.is_(None))
    return [
        OrgEdge(
            row.kind,
            row.child,
            row.parent,
            row.valid_from,
            row.valid_to,
            row.version,
            row.org_version,
            row.environment,
            row.cost_centre,
        )
        for row in connection.execute(query)
    ]


def open_bindings(connection: Connection, user: str | None = None) -> list[BindingRow]:
    """Bindings in force, of one user (by name) or of all."""
    query = select(t.binding).where(t.binding.c.valid_to.is_(None)).order_by(t.binding.c.name)
    if user is not None:
        query = query.where(t.binding.c.user == user)
    return [
        BindingRow(row.id, row.name, Binding(row.user, RoleName(row.role), row.project, row.version))
        for row in connection.execute(query)
    ]


def open_limits(connection: Connection) -> list[LimitRow]:
    """Limits in force."""
    query = select(t.quota_limit).where(t.quota_limit.c.valid_to.is_(None)).order_by(t.quota_limit.c.id)
    return [LimitRow(row.id, row.declared_by, _limit(row)) for row in connection.execute(query)]


def limits_before(connection: Connection, at: int) -> list[Limit]:
    """All limits that came into force before an instant, in that order, each with when it did."""
    query = select(t.quota_limit).where(t.quota_limit.c.valid_from < at)
    ordered = query.order_by(t.quota_limit.c.valid_from, t.quota_limit.c.id)
    return [_limit(row) for row in connection.execute(ordered)]


def _limit(row: Row[Any]) -> Limit:
    return Limit(
        row.tree, row.node, row.subject, row.nominal, row.borrowing_limit, row.lending_limit,
        OnExceed(row.on_exceed), None if row.on_lowered is None else OnLowered(row.on_lowered),
        row.drain_for, row.valid_from,
    )  # fmt: skip


def live_workloads(
    connection: Connection,
    *,
    project: str | None = None,
    namespace: str | None = None,
    queue: str | None = None,
    priority_class: str | None = None,
) -> int:
    """How many workloads that are not finished name the object; the store's own count, for retiring."""
    w = t.workload.c
    query = select(func.count()).select_from(t.workload).where(w.phase != FINISHED)
    for column, value in (
        (w.project, project),
        (w.namespace, namespace),
        (w.queue, queue),
        (w.priority_class, priority_class),
    ):
        if value is not None:
            query = query.where(column == value)
    return int(connection.execute(query).scalar_one())


def live_attempts(connection: Connection, cluster: str) -> int:
    """How many attempts on a cluster have not given everything back."""
    query = (
        select(func.count())
        .select_from(t.attempt)
        .where(t.attempt.c.cluster == cluster, t.attempt.c.phase != FINISHED)
    )
    return int(connection.execute(query).scalar_one())


def usage_counters(connection: Connection) -> dict[tuple[str, str, str], int]:
    """(tree, node, subject) → what is charged there now."""
    return {(row.tree, row.node, row.subject): row.used for row in connection.execute(select(t.quota_usage))}

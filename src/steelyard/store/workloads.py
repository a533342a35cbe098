"""Reading workloads: lists within a scope, and everything that one workload's page shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    func,
    literal,
    select,
)

from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.lifecycle import Phase
from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, Scoped, like, page_size, record, visible

LIVE = "live"
_FINISHED = "finished"


def live_rows(phase: ColumnElement[Any]) -> ColumnElement[bool]:
    """As the index of live workloads says it: only a condition that contains these words may use it."""
    return phase != literal(_FINISHED, literal_execute=True)


LIVE_ROWS = live_rows(t.workload.c.phase)
#: The same of the index of those that wait, in the order in which they are looked at.
QUEUED_ROWS = t.workload.c.phase == literal("queued", literal_execute=True)
_NEWEST = "newest"
CURRENT_ATTEMPT = (t.attempt.c.workload_id == t.workload.c.id) & (t.attempt.c.number == t.workload.c.attempt)
WITH_ATTEMPT = (
    t.attempt.c.id.label("attempt_id"),
    t.attempt.c.submitted.label("attempt_submitted"),
    t.attempt.c.sub_stage,
    t.attempt.c.cluster,
    t.attempt.c.simulated,
    t.attempt.c.eligible,
    t.attempt.c.reserved,
    t.attempt.c.placed,
    t.attempt.c.started,
    t.attempt.c.ready,
    t.attempt.c.not_before,
    t.attempt.c.verdict_json,
    t.attempt.c.version.label("attempt_version"),
)
_WHOLE = select(t.workload, *WITH_ATTEMPT).join(t.attempt, CURRENT_ATTEMPT)


def chunks(ids: list[int], size: int = 500) -> Iterable[list[int]]:
    """Lists short enough for one statement's parameters."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


# Queries stand built in the module: to build one takes SQLAlchemy several times as long as to run it.
def _among(column: Column[Any]) -> ColumnElement[bool]:
    return column.in_(bindparam("ids", expanding=True))


def _each(connection: Connection, query: Select[Any], ids: Collection[int]) -> Iterator[Row[Any]]:
    """Rows of a query for `ids`, a chunk at a time."""
    for chunk in chunks(sorted(ids)):
        yield from connection.execute(query, {"ids": chunk})


def _records(connection: Connection, query: Select[Any], number: int) -> list[Record]:
    return [record(row) for row in connection.execute(query, {"id": number})]


def _one(connection: Connection, query: Select[Any], number: int) -> Record | None:
    row = connection.execute(query, {"id": number}).first()
    return None if row is None else record(row)


@dataclass(frozen=True, slots=True)
class WorkloadFilter:
    """What a list is narrowed to; None: not. `phase` may be `live`. `text` is looked for in the name."""

    project: str | None = None
    namespace: str | None = None
    kind: str | None = None
    phase: str | None = None
    outcome: str | None = None
    queue: str | None = None
    text: str | None = None
    group: int | None = None  # only its workloads; without it only the first of each group, where nothing
    # that a group's workloads differ in is asked for


@lru_cache(maxsize=512)
def _page(asked: frozenset[str], limited: bool, newest: bool, follows: bool) -> Select[Any]:
    """A page of workloads by id, narrowed by the parameters `asked`. The ids are found first, so that no more
    than the page's own rows are read and carried whole."""
    narrow = t.workload.alias("narrow")
    w = narrow.c
    query = select(w.id)
    for name in ("project", "namespace", "kind", "phase", "outcome", "queue"):
        if name in asked:
            query = query.where(w[name] == bindparam(name))
    if "live" in asked:
        query = query.where(live_rows(w.phase))
    if "group" in asked:
        query = query.where(w.group_id == bindparam("group"))
    if "firsts" in asked:
        query = query.where(w.group_index.is_(None) | (w.group_index == 0))
    if "text" in asked:
        query = query.where(w.name.like(bindparam("text"), escape="/"))
    if limited:
        query = query.where(w.project.in_(bindparam("scope_projects", expanding=True)))
    if follows:
        query = query.where(w.id < bindparam("after") if newest else w.id > bindparam("after"))
    query = query.order_by(w.id.desc() if newest else w.id).limit(bindparam("most"))
    found, key = _WHOLE.where(t.workload.c.id.in_(query)), t.workload.c.id
    return found.order_by(key.desc() if newest else key)


def _asked(wanted: WorkloadFilter) -> dict[str, Any]:
    """The parameters of a page, and (None) the conditions without one."""
    values: dict[str, Any] = {
        "project": wanted.project,
        "namespace": wanted.namespace,
        "kind": wanted.kind,
        "outcome": wanted.outcome,
        "queue": wanted.queue,
        "group": wanted.group,
        "text": like(wanted.text) if wanted.text else None,
        "phase": None if wanted.phase == LIVE else wanted.phase,
    }
    asked = {name: value for name, value in values.items() if value is not None}
    if wanted.phase not in (None, _FINISHED):
        asked["live"] = None
    if wanted.group is None and wanted.phase is None and wanted.outcome is None:
        asked["firsts"] = None
    return asked


def list_workloads(
    connection: Connection,
    scope: Scope,
    wanted: WorkloadFilter,
    *,
    after: int | None = None,
    limit: int = 50,
    order: str = _NEWEST,
) -> list[Record]:
    """Workloads with their current attempt, by id; `after` is the last id of the page before."""
    asked = _asked(wanted)
    query = _page(frozenset(asked), scope.projects is not None, order == _NEWEST, after is not None)
    values = {name: value for name, value in asked.items() if value is not None}
    values |= {"most": page_size(limit)} | ({} if after is None else {"after": after})
    values |= {} if scope.projects is None else {"scope_projects": sorted(scope.projects)}
    return [record(row) for row in connection.execute(query, values)]


_ONE = Scoped(_WHOLE.where(t.workload.c.id == bindparam("id")), t.workload.c.project)


def get_workload(connection: Connection, scope: Scope, workload_id: int) -> Record | None:
    """One workload with its current attempt; None when there is none within the scope."""
    row = _ONE.run(connection, scope, id=workload_id).first()
    return None if row is None else record(row)


def _counted(phase: ColumnElement[Any], *where: ColumnElement[bool]) -> Scoped:
    w = t.workload.c
    keys = (w.queue, w.project, w.namespace)
    query = select(*keys, phase, func.count()).where(*where).group_by(*keys)
    return Scoped(query if phase is not w.phase else query.group_by(phase), w.project)


_QUEUED_COUNTS = _counted(literal("queued"), QUEUED_ROWS)  # all of it stands in the index
_OTHER_COUNTS = _counted(
    t.workload.c.phase,
    LIVE_ROWS,
    t.workload.c.phase.in_([phase.value for phase in Phase if phase not in (Phase.QUEUED, Phase.FINISHED)]),
)


def count_live(connection: Connection, scope: Scope) -> dict[tuple[str, str, str, str], int]:
    """Live workloads by (queue, project, namespace, phase)."""
    rows = [*_QUEUED_COUNTS.run(connection, scope), *_OTHER_COUNTS.run(connection, scope)]
    return {(row[0], row[1], row[2], row[3]): row[4] for row in rows}


_NAMES = Scoped(
    select(t.workload.c.id, t.workload.c.name, t.workload.c.project).where(_among(t.workload.c.id)),
    t.workload.c.project,
)


def names_of(connection: Connection, scope: Scope, ids: Collection[int]) -> dict[int, Record]:
    """id → {name, project} of those workloads that the scope allows."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(ids)):
        found.update((row.id, record(row)) for row in _NAMES.run(connection, scope, ids=chunk))
    return found


_ACCOUNTS = select(t.user.c.id, t.user.c.name).where(_among(t.user.c.id))


def account_names(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """Rendered user id → name, of people who have an account. Others (our own loops) are left out."""
    wanted = {number for number in map(_user_number, ids) if number is not None}
    return {render("user", row.id): row.name for row in _each(connection, _ACCOUNTS, wanted)}


def _user_number(text: str) -> int | None:
    try:
        return parse("user", text)
    except InvalidError:
        return None


# --- parts of one workload; the caller has found it within its scope ------------------------------
_ATTEMPTS = select(t.attempt).where(t.attempt.c.workload_id == bindparam("id")).order_by(t.attempt.c.number)
_ROLES = select(t.role).where(t.role.c.workload_id == bindparam("id")).order_by(t.role.c.ordinal)
_MEMBERS = (
    select(t.member, t.node.c.name.label("node"))
    .outerjoin(t.node, t.node.c.id == t.member.c.node_id)
    .where(_among(t.member.c.attempt_id))
    .order_by(t.member.c.attempt_id, t.member.c.role, t.member.c.idx)
)
_MEMBER = Scoped(
    select(t.member, t.workload.c.id.label("workload_id"), t.workload.c.project)
    .join(t.attempt, t.attempt.c.id == t.member.c.attempt_id)
    .join(t.workload, t.workload.c.id == t.attempt.c.workload_id)
    .where(t.member.c.id == bindparam("id")),
    t.workload.c.project,
)
_ALLOCATIONS = (
    select(t.allocation, t.device.c.uid, t.device.c.model, t.device.c.simulated)
    .outerjoin(t.device, t.device.c.id == t.allocation.c.device_id)
    .where(_among(t.allocation.c.attempt_id))
    .order_by(t.allocation.c.id)
)
_WAITS = (
    select(t.wait_slice)
    .where(_among(t.wait_slice.c.attempt_id))
    .order_by(t.wait_slice.c.attempt_id, t.wait_slice.c.t0)
)
_RECEIPTS = select(t.receipt).where(_among(t.receipt.c.attempt_id))
_USE = select(t.use).where(t.use.c.attempt_id == bindparam("id"))
_EVALUATION = select(t.evaluation).where(t.evaluation.c.workload_id == bindparam("id"))
_EVALUATIONS = (
    select(t.evaluation.c.workload_id)
    .where(t.evaluation.c.model_workload == bindparam("id"))
    .order_by(t.evaluation.c.workload_id.desc())
    .limit(bindparam("most"))
)
_EVICTIONS = select(t.eviction).where(t.eviction.c.workload_id == bindparam("id")).order_by(t.eviction.c.at)
_HOLD = select(t.hold).where(t.hold.c.attempt_id == bindparam("id"))


def attempts_of(connection: Connection, workload_id: int) -> list[Record]:
    """All attempts, the first one first."""
    return _records(connection, _ATTEMPTS, workload_id)


def roles_of(connection: Connection, workload_id: int) -> list[Record]:
    """Roles in their declared order."""
    return _records(connection, _ROLES, workload_id)


def members_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Members of these attempts with the name of their node."""
    return [record(row) for row in _each(connection, _MEMBERS, attempt_ids)]


def get_member(connection: Connection, scope: Scope, member_id: int) -> Record | None:
    """A member with its workload, within the scope."""
    row = _MEMBER.run(connection, scope, id=member_id).first()
    return None if row is None else record(row)


def allocations_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Allocations of these attempts with what is known of each device."""
    return [record(row) for row in _each(connection, _ALLOCATIONS, attempt_ids)]


def wait_slices_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Wait slices of these attempts in order of time."""
    return [record(row) for row in _each(connection, _WAITS, attempt_ids)]


def receipts_of(connection: Connection, attempt_ids: Collection[int]) -> dict[int, Record]:
    """attempt id → receipt."""
    return {row.attempt_id: record(row) for row in _each(connection, _RECEIPTS, attempt_ids)}


def use_of(connection: Connection, attempt_id: int) -> Record | None:
    """What was measured of an attempt that has an idle limit."""
    return _one(connection, _USE, attempt_id)


def evaluation_of(connection: Connection, workload_id: int) -> Record | None:
    """The record of an evaluation that has ended."""
    return _one(connection, _EVALUATION, workload_id)


def evaluations_of_model(connection: Connection, workload_id: int, limit: int = 50) -> list[int]:
    """The newest workloads that evaluated what this one left."""
    return list(connection.execute(_EVALUATIONS, {"id": workload_id, "most": limit}).scalars())


def evictions_of(connection: Connection, workload_id: int) -> list[Record]:
    """Evictions that this workload's attempts met."""
    return _records(connection, _EVICTIONS, workload_id)


def hold_of(connection: Connection, attempt_id: int) -> Record | None:
    """The place that is kept for an attempt."""
    return _one(connection, _HOLD, attempt_id)


# --- shapes and their reasons ----------------------------------------------------------------------
_BODIES = select(t.shape.c.id, t.shape.c.body_json).where(_among(t.shape.c.id))
_REASONS = select(t.shape_reason).where(_among(t.shape_reason.c.shape_id), t.shape_reason.c.t1.is_(None))
_SLICED = select(func.max(t.wait_slice.c.t1)).where(t.wait_slice.c.attempt_id == bindparam("id"))
_BETWEEN = (
    select(t.shape_reason)
    .where(
        t.shape_reason.c.shape_id == bindparam("id"),
        t.shape_reason.c.t0 < bindparam("end"),
        t.shape_reason.c.t1.is_(None) | (t.shape_reason.c.t1 > bindparam("start")),
    )
    .order_by(t.shape_reason.c.t0)
)


def shape_bodies(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """shape id → body (JSON)."""
    return {row.id: row.body_json for row in _each(connection, _BODIES, ids)}


def open_reasons(connection: Connection, shape_ids: Collection[int]) -> dict[int, Record]:
    """shape id → the reasons that stand now."""
    return {row.shape_id: record(row) for row in _each(connection, _REASONS, shape_ids)}


def sliced_until(connection: Connection, attempt_id: int) -> int | None:
    """Where the wait slices of an attempt end so far; None while it has none."""
    return connection.execute(_SLICED, {"id": attempt_id}).scalar()


def reasons_between(connection: Connection, shape_id: int, t0: int, t1: int) -> list[Record]:
    """The reasons of a shape that stood at any time within `[t0, t1)`, in order of time."""
    found = connection.execute(_BETWEEN, {"id": shape_id, "start": t0, "end": t1})
    return [record(row) for row in found]


# --- refusals --------------------------------------------------------------------------------------
def list_refusals(
    connection: Connection,
    scope: Scope,
    *,
    project: str | None = None,
    after: int | None = None,
    limit: int = 50,
) -> list[Record]:
    """Refusals, the newest first. Whoever asked sees its own, wherever it asked."""
    r = t.refusal.c
    seen = visible(r.project, scope)
    if scope.projects is not None and scope.user is not None:
        seen = seen | (r.principal == scope.user)
    query = select(t.refusal).where(seen).order_by(r.id.desc())
    if project is not None:
        query = query.where(r.project == project)
    if after is not None:
        query = query.where(r.id < after)
    return [record(row) for row in connection.execute(query.limit(page_size(limit)))]


def get_refusal(connection: Connection, scope: Scope, refusal_id: int) -> Record | None:
    """One refusal within the scope."""
    rows = list_refusals(connection, scope, after=refusal_id + 1, limit=1)
    return rows[0] if rows and rows[0]["id"] == refusal_id else None

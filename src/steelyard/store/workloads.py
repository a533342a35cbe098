"""Reading workloads: lists within a scope, and everything that one workload's page shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Select, func, literal, select

from steelyard.model.errors import InvalidError
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, contains, page_size, record, visible

LIVE = "live"
_FINISHED = "finished"
#: As the index of live workloads says it: only a condition that contains these words may use it.
LIVE_ROWS = t.workload.c.phase != literal(_FINISHED, literal_execute=True)
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


def _narrowed(
    query: Select[tuple[object, ...]], scope: Scope, wanted: WorkloadFilter
) -> Select[tuple[object, ...]]:
    w = t.workload.c
    query = query.where(visible(w.project, scope))
    for column, value in (
        (w.project, wanted.project),
        (w.namespace, wanted.namespace),
        (w.kind, wanted.kind),
        (w.outcome, wanted.outcome),
        (w.queue, wanted.queue),
    ):
        if value is not None:
            query = query.where(column == value)
    if wanted.phase not in (None, _FINISHED):
        query = query.where(LIVE_ROWS)
    if wanted.phase not in (None, LIVE):
        query = query.where(w.phase == wanted.phase)
    if wanted.group is not None:
        query = query.where(w.group_id == wanted.group)
    elif wanted.phase is None and wanted.outcome is None:
        query = query.where(w.group_index.is_(None) | (w.group_index == 0))
    if wanted.text:
        query = query.where(contains(w.name, wanted.text))
    return query


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
    query = _narrowed(select(t.workload, *WITH_ATTEMPT).join(t.attempt, CURRENT_ATTEMPT), scope, wanted)
    if order == _NEWEST:
        query = query.order_by(t.workload.c.id.desc())
        query = query if after is None else query.where(t.workload.c.id < after)
    else:
        query = query.order_by(t.workload.c.id)
        query = query if after is None else query.where(t.workload.c.id > after)
    return [record(row) for row in connection.execute(query.limit(page_size(limit)))]


def get_workload(connection: Connection, scope: Scope, workload_id: int) -> Record | None:
    """One workload with its current attempt; None when there is none within the scope."""
    query = (
        select(t.workload, *WITH_ATTEMPT)
        .join(t.attempt, CURRENT_ATTEMPT)
        .where(t.workload.c.id == workload_id, visible(t.workload.c.project, scope))
    )
    row = connection.execute(query).first()
    return None if row is None else record(row)


def count_live(connection: Connection, scope: Scope) -> dict[tuple[str, str, str, str], int]:
    """Live workloads by (queue, project, namespace, phase)."""
    w = t.workload.c
    keys = (w.queue, w.project, w.namespace, w.phase)
    query = select(*keys, func.count()).where(visible(w.project, scope), LIVE_ROWS).group_by(*keys)
    return {(row[0], row[1], row[2], row[3]): row[4] for row in connection.execute(query)}


def names_of(connection: Connection, scope: Scope, ids: Collection[int]) -> dict[int, Record]:
    """id → {name, project} of those workloads that the scope allows."""
    w = t.workload.c
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(ids)):
        query = select(w.id, w.name, w.project).where(w.id.in_(chunk), visible(w.project, scope))
        found.update((row.id, record(row)) for row in connection.execute(query))
    return found


def account_names(connection: Connection, ids: Collection[str]) -> dict[str, str]:
    """Rendered user id → name, of people who have an account. Others (our own loops) are left out."""
    wanted = {number for number in map(_user_number, ids) if number is not None}
    query = select(t.user.c.id, t.user.c.name).where(t.user.c.id.in_(sorted(wanted)))
    return {render("user", row.id): row.name for row in connection.execute(query)} if wanted else {}


def _user_number(text: str) -> int | None:
    try:
        return parse("user", text)
    except InvalidError:
        return None


def chunks(ids: list[int], size: int = 500) -> Iterable[list[int]]:
    """Lists short enough for one statement's parameters."""
    return (ids[start : start + size] for start in range(0, len(ids), size))


# --- parts of one workload; the caller has found it within its scope ------------------------------
def attempts_of(connection: Connection, workload_id: int) -> list[Record]:
    """All attempts, the first one first."""
    query = select(t.attempt).where(t.attempt.c.workload_id == workload_id).order_by(t.attempt.c.number)
    return [record(row) for row in connection.execute(query)]


def roles_of(connection: Connection, workload_id: int) -> list[Record]:
    """Roles in their declared order."""
    query = select(t.role).where(t.role.c.workload_id == workload_id).order_by(t.role.c.ordinal)
    return [record(row) for row in connection.execute(query)]


def members_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Members of these attempts with the name of their node."""
    found: list[Record] = []
    for chunk in chunks(sorted(attempt_ids)):
        query = (
            select(t.member, t.node.c.name.label("node"))
            .outerjoin(t.node, t.node.c.id == t.member.c.node_id)
            .where(t.member.c.attempt_id.in_(chunk))
            .order_by(t.member.c.attempt_id, t.member.c.role, t.member.c.idx)
        )
        found += [record(row) for row in connection.execute(query)]
    return found


def get_member(connection: Connection, scope: Scope, member_id: int) -> Record | None:
    """A member with its workload, within the scope."""
    query = (
        select(t.member, t.workload.c.id.label("workload_id"), t.workload.c.project)
        .join(t.attempt, t.attempt.c.id == t.member.c.attempt_id)
        .join(t.workload, t.workload.c.id == t.attempt.c.workload_id)
        .where(t.member.c.id == member_id, visible(t.workload.c.project, scope))
    )
    row = connection.execute(query).first()
    return None if row is None else record(row)


def allocations_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Allocations of these attempts with what is known of each device."""
    found: list[Record] = []
    for chunk in chunks(sorted(attempt_ids)):
        query = (
            select(t.allocation, t.device.c.uid, t.device.c.model, t.device.c.simulated)
            .outerjoin(t.device, t.device.c.id == t.allocation.c.device_id)
            .where(t.allocation.c.attempt_id.in_(chunk))
            .order_by(t.allocation.c.id)
        )
        found += [record(row) for row in connection.execute(query)]
    return found


def wait_slices_of(connection: Connection, attempt_ids: Collection[int]) -> list[Record]:
    """Wait slices of these attempts in order of time."""
    found: list[Record] = []
    for chunk in chunks(sorted(attempt_ids)):
        query = (
            select(t.wait_slice)
            .where(t.wait_slice.c.attempt_id.in_(chunk))
            .order_by(t.wait_slice.c.attempt_id, t.wait_slice.c.t0)
        )
        found += [record(row) for row in connection.execute(query)]
    return found


def receipts_of(connection: Connection, attempt_ids: Collection[int]) -> dict[int, Record]:
    """attempt id → receipt."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(attempt_ids)):
        query = select(t.receipt).where(t.receipt.c.attempt_id.in_(chunk))
        found.update((row.attempt_id, record(row)) for row in connection.execute(query))
    return found


def use_of(connection: Connection, attempt_id: int) -> Record | None:
    """What was measured of an attempt that has an idle limit."""
    row = connection.execute(select(t.use).where(t.use.c.attempt_id == attempt_id)).first()
    return None if row is None else record(row)


def evaluation_of(connection: Connection, workload_id: int) -> Record | None:
    """The record of an evaluation that has ended."""
    row = connection.execute(select(t.evaluation).where(t.evaluation.c.workload_id == workload_id)).first()
    return None if row is None else record(row)


def evaluations_of_model(connection: Connection, workload_id: int, limit: int = 50) -> list[int]:
    """The newest workloads that evaluated what this one left."""
    e = t.evaluation.c
    query = select(e.workload_id).where(e.model_workload == workload_id).order_by(e.workload_id.desc())
    return [row.workload_id for row in connection.execute(query.limit(limit))]


def evictions_of(connection: Connection, workload_id: int) -> list[Record]:
    """Evictions that this workload's attempts met."""
    query = select(t.eviction).where(t.eviction.c.workload_id == workload_id).order_by(t.eviction.c.at)
    return [record(row) for row in connection.execute(query)]


def hold_of(connection: Connection, attempt_id: int) -> Record | None:
    """The place that is kept for an attempt."""
    row = connection.execute(select(t.hold).where(t.hold.c.attempt_id == attempt_id)).first()
    return None if row is None else record(row)


# --- shapes and their reasons ----------------------------------------------------------------------
def shape_bodies(connection: Connection, ids: Collection[int]) -> dict[int, str]:
    """shape id → body (JSON)."""
    found: dict[int, str] = {}
    for chunk in chunks(sorted(ids)):
        query = select(t.shape.c.id, t.shape.c.body_json).where(t.shape.c.id.in_(chunk))
        found.update((row.id, row.body_json) for row in connection.execute(query))
    return found


def open_reasons(connection: Connection, shape_ids: Collection[int]) -> dict[int, Record]:
    """shape id → the reasons that stand now."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(shape_ids)):
        query = select(t.shape_reason).where(
            t.shape_reason.c.shape_id.in_(chunk), t.shape_reason.c.t1.is_(None)
        )
        found.update((row.shape_id, record(row)) for row in connection.execute(query))
    return found


def sliced_until(connection: Connection, attempt_id: int) -> int | None:
    """Where the wait slices of an attempt end so far; None while it has none."""
    w = t.wait_slice.c
    return connection.execute(select(func.max(w.t1)).where(w.attempt_id == attempt_id)).scalar()


def reasons_between(connection: Connection, shape_id: int, t0: int, t1: int) -> list[Record]:
    """The reasons of a shape that stood at any time within `[t0, t1)`, in order of time."""
    r = t.shape_reason.c
    query = (
        select(t.shape_reason)
        .where(r.shape_id == shape_id, r.t0 < t1, (r.t1.is_(None)) | (r.t1 > t0))
        .order_by(r.t0)
    )
    return [record(row) for row in connection.execute(query)]


def _ahead(queue: str, priority: int, submitted_at: int, workload_id: int) -> ColumnElement[bool]:
    w = t.workload.c
    earlier = (w.submitted_at < submitted_at) | ((w.submitted_at == submitted_at) & (w.id < workload_id))
    first = (w.priority > priority) | ((w.priority == priority) & earlier)
    return (w.queue == queue) & LIVE_ROWS & (w.phase == "queued") & first


def count_ahead(
    connection: Connection, queue: str, priority: int, submitted_at: int, workload_id: int
) -> int:
    """Waiting workloads of a queue that are looked at earlier: higher priority, else submitted earlier."""
    query = select(func.count()).select_from(t.workload)
    query = query.where(_ahead(queue, priority, submitted_at, workload_id))
    return int(connection.execute(query).scalar_one())


def list_ahead(connection: Connection, scope: Scope, row: Record, limit: int = 10) -> list[Record]:
    """The first of those waiting before a workload. Of projects outside the scope only the priority."""
    w = t.workload.c
    query = (
        select(w.id, w.name, w.project, w.priority)
        .where(_ahead(row["queue"], row["priority"], row["submitted_at"], row["id"]))
        .order_by(w.priority.desc(), w.submitted_at, w.id)
        .limit(page_size(limit))
    )
    found = [record(entry) for entry in connection.execute(query)]
    return [
        entry if scope.allows(entry["project"]) else {**entry, "id": None, "name": None, "project": None}
        for entry in found
    ]


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

"""Failures by signature: how often each came, how much time it cost, and the newest of each.

Windows are `[start, end)` in µs: of attempts the instant of the end counts, of refusals that of the request.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, func, or_, select

from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, record, visible
from steelyard.store.workloads import chunks

_a, _w, _r = t.attempt.c, t.workload.c, t.refusal.c


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """What failures are narrowed to; None: not. `group` narrows attempts alone: of refusals no row has it."""

    start: int = 0
    end: int = 2**62
    project: str | None = None
    stage: str | None = None
    group: str | None = None


def failed_groups(connection: Connection, scope: Scope, wanted: FailureFilter) -> list[Record]:
    """signature, simulated, count, workloads, lost (µs from placed to given back), first_at, last_at, newest
    (attempt)."""
    lost = func.coalesce(func.sum(_a.release_confirmed - _a.placed), 0)
    query: Select[Any] = select(
        _a.failure_signature.label("signature"),
        _a.simulated,
        func.count().label("count"),
        func.count(_a.workload_id.distinct()).label("workloads"),
        lost.label("lost"),
        func.min(_a.ended).label("first_at"),
        func.max(_a.ended).label("last_at"),
        func.max(_a.id).label("newest"),
    )
    query = query.select_from(_attempts()).where(*_failed(scope, wanted))
    query = query.group_by(_a.failure_signature, _a.simulated)
    return [
        {**record(row), "lost": int(row.lost), "simulated": bool(row.simulated)}
        for row in connection.execute(query)
    ]


def failed_stages(connection: Connection, scope: Scope, wanted: FailureFilter) -> dict[str, int]:
    """How many attempts failed at each stage."""
    query = select(_a.failure_stage, func.count()).select_from(_attempts())
    rows = connection.execute(query.where(*_failed(scope, wanted)).group_by(_a.failure_stage))
    return {stage: int(count) for stage, count in rows}


def failed_projects(
    connection: Connection, scope: Scope, wanted: FailureFilter, signatures: Collection[str]
) -> dict[tuple[str, bool], dict[str, int]]:
    """(signature, simulated) → project → count."""
    query = (
        select(_a.failure_signature, _a.simulated, _w.project, func.count())
        .select_from(_attempts())
        .where(*_failed(scope, wanted), _a.failure_signature.in_(sorted(signatures)))
        .group_by(_a.failure_signature, _a.simulated, _w.project)
    )
    found: dict[tuple[str, bool], dict[str, int]] = {}
    for signature, simulated, project, count in connection.execute(query):
        found.setdefault((signature, bool(simulated)), {})[project] = int(count)
    return found


def failed_attempts(connection: Connection, ids: Collection[int]) -> dict[int, Record]:
    """These attempts with their workload: verdict_json, number, simulated, workload_id, name, project."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(ids)):
        query = (
            select(_a.id, _a.number, _a.simulated, _a.verdict_json, _a.workload_id, _w.name, _w.project)
            .select_from(_attempts())
            .where(_a.id.in_(chunk))
        )
        found.update((row.id, record(row)) for row in connection.execute(query))
    return found


def refused_groups(connection: Connection, scope: Scope, wanted: FailureFilter) -> list[Record]:
    """signature, count, first_at, last_at, newest (refusal)."""
    query: Select[Any] = select(
        _r.failure_signature.label("signature"),
        func.count().label("count"),
        func.min(_r.at).label("first_at"),
        func.max(_r.at).label("last_at"),
        func.max(_r.id).label("newest"),
    ).where(*_refused(scope, wanted))
    return [record(row) for row in connection.execute(query.group_by(_r.failure_signature))]


def refused_rows(connection: Connection, ids: Collection[int]) -> dict[int, Record]:
    """These refusals: reasons_json, name, project."""
    found: dict[int, Record] = {}
    for chunk in chunks(sorted(ids)):
        query = select(_r.id, _r.name, _r.project, _r.reasons_json).where(_r.id.in_(chunk))
        found.update((row.id, record(row)) for row in connection.execute(query))
    return found


def _attempts() -> Any:
    return t.attempt.join(t.workload, _w.id == _a.workload_id)


def _failed(scope: Scope, wanted: FailureFilter) -> list[ColumnElement[bool]]:
    found = [
        _a.failure_signature.is_not(None),
        _a.release_confirmed.is_not(None),
        _a.ended >= wanted.start,
        _a.ended < wanted.end,
        visible(_w.project, scope),
    ]
    if wanted.project is not None:
        found.append(_w.project == wanted.project)
    if wanted.stage is not None:
        found.append(_a.failure_stage == wanted.stage)
    if wanted.group is not None:
        found.append(_a.failure_group == wanted.group)
    return found


def _refused(scope: Scope, wanted: FailureFilter) -> list[ColumnElement[bool]]:
    """Of projects within the scope; what never had a project is seen by who asked."""
    seen = visible(_r.project, scope)
    if scope.projects is not None and scope.user is not None:
        seen = or_(seen, and_(_r.project.is_(None), _r.principal == scope.user))
    found = [_r.failure_signature.is_not(None), _r.at >= wanted.start, _r.at < wanted.end, seen]
    if wanted.project is not None:
        found.append(_r.project == wanted.project)
    if wanted.stage is not None:
        found.append(_r.failure_stage == wanted.stage)
    return found

"""Start estimates beside what they rest on and what became of them: finished runs, starts, what waits."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection, and_, func, select

from steelyard.model.resources import ACCELERATORS
from steelyard.store import tables as t
from steelyard.store.scoped import Record, record
from steelyard.store.workloads import chunks

_e = t.start_estimate.c


def finished_runs(connection: Connection, limit: int) -> list[Record]:
    """The newest runs that succeeded: kind, spec, attempt, and how long they held what they had (µs)."""
    w, a = t.workload.c, t.attempt.c
    end = func.coalesce(a.release_confirmed, a.ended)
    query = (
        select(
            w.kind, w.spec_json, a.id.label("attempt_id"), (end - a.placed).label("held"), end.label("end")
        )
        .join_from(t.workload, t.attempt, and_(a.workload_id == w.id, a.number == w.attempt))
        .where(w.outcome == "succeeded", a.placed.is_not(None), end.is_not(None))
        .order_by(w.id.desc())
        .limit(limit)
    )
    return [record(row) for row in connection.execute(query)]


def held_models(connection: Connection, attempt_ids: Collection[int]) -> dict[int, dict[str, int]]:
    """Attempt → model → milli-devices that it held; of accelerators whose model is known."""
    a, d = t.allocation.c, t.device.c
    found: dict[int, dict[str, int]] = {}
    for chunk in chunks(sorted(attempt_ids)):
        query = (
            select(a.attempt_id, d.model, func.sum(a.quantity).label("held"))
            .join_from(t.allocation, t.device, d.id == a.device_id)
            .where(a.attempt_id.in_(chunk), a.device_class.in_([cls.value for cls in ACCELERATORS]))
            .where(d.model.is_not(None))
            .group_by(a.attempt_id, d.model)
        )
        for row in connection.execute(query):
            found.setdefault(row.attempt_id, {})[row.model] = int(row.held)
    return found


def estimated(connection: Connection, attempt_ids: Collection[int]) -> set[int]:
    """Those of the attempts that have an estimate."""
    found: set[int] = set()
    for chunk in chunks(sorted(attempt_ids)):
        found.update(connection.execute(select(_e.attempt_id).where(_e.attempt_id.in_(chunk))).scalars())
    return found


def outcomes(connection: Connection, since: int, limit: int) -> list[Record]:
    """(earliest, latest, placed) of attempts that were placed after an estimate, the newest first."""
    a = t.attempt.c
    query = (
        select(_e.earliest, _e.latest, a.placed)
        .join_from(t.start_estimate, t.attempt, a.id == _e.attempt_id)
        .where(_e.made_at >= since, a.placed.is_not(None))
        .order_by(_e.made_at.desc())
        .limit(limit)
    )
    return [record(row) for row in connection.execute(query)]


def old_estimates(connection: Connection, before: int, limit: int) -> list[Record]:
    """Keys of estimates made before this."""
    query = select(_e.attempt_id).where(_e.made_at < before).order_by(_e.made_at).limit(limit)
    return [record(row) for row in connection.execute(query)]

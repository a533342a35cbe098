"""Reading what a first look needs: how much waits and runs, what ended badly of late, what is kept back."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select, true

from steelyard.model.lifecycle import Outcome
from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Record, page_size, record, visible
from steelyard.store.workloads import LIVE_ROWS

#: Ends that somebody should look at.
BAD_OUTCOMES = (Outcome.FAILED.value, Outcome.TIMED_OUT.value, Outcome.LOST.value)
#: As the index of what ended badly says it: only a condition that contains these words may use it.
_ENDED_BADLY = t.workload.c.outcome.in_(
    bindparam("bad_outcomes", BAD_OUTCOMES, expanding=True, literal_execute=True)
)


_CAPACITIES = select(
    *(t.device.c[name] for name in ("id", "cluster", "device_class", "capacity", "availability")),
    *(t.device.c[name] for name in ("has_children", "simulated")),
).where(t.device.c.retired_at.is_(None))


def device_capacities(connection: Connection) -> list[Record]:
    """Of every device that is not retired what its capacity is taken apart by. Thousands: their columns are
    named once."""
    result = connection.execute(_CAPACITIES)
    names = tuple(result.keys())
    return [dict(zip(names, row, strict=True)) for row in result]


def live_by_phase(connection: Connection, scope: Scope) -> dict[str, int]:
    """How many live workloads are in each phase."""
    w = t.workload.c
    query = select(w.phase, func.count()).where(visible(w.project, scope), LIVE_ROWS).group_by(w.phase)
    return {row[0]: row[1] for row in connection.execute(query)}


def queued_by_shape(connection: Connection, scope: Scope) -> dict[int, int]:
    """shape id → how many queued workloads have it."""
    w = t.workload.c
    query = (
        select(w.shape_id, func.count())
        .where(visible(w.project, scope), LIVE_ROWS, w.phase == "queued")
        .group_by(w.shape_id)
    )
    return {row[0]: row[1] for row in connection.execute(query)}


def ended_badly(connection: Connection, scope: Scope, since: int, limit: int) -> list[Record]:
    """The workloads that failed, ran out of time or were lost since an instant, the newest end first."""
    w = t.workload.c
    # an expression, so that no index of projects is preferred: those who failed are few, projects are large
    seen = true() if scope.projects is None else func.coalesce(w.project, "").in_(sorted(scope.projects))
    query = (
        select(t.workload, t.attempt.c.verdict_json, t.attempt.c.cluster, t.attempt.c.simulated)
        .join(t.attempt, (t.attempt.c.workload_id == w.id) & (t.attempt.c.number == w.attempt))
        .where(seen, _ENDED_BADLY, w.finished_at >= since)
        .order_by(w.finished_at.desc(), w.id.desc())
    )
    return [record(row) for row in connection.execute(query.limit(page_size(limit)))]


def quarantined_devices(connection: Connection, limit: int) -> list[Record]:
    """Devices of which a part is kept back because its release is not proven, the longest kept first."""
    q, d = t.quarantine.c, t.device.c
    query = (
        select(d.id, d.cluster, d.uid, d.simulated, d.device_class, q.quantity, q.t0)
        .join(t.device, d.id == q.device_id)
        .where(q.t1.is_(None))
        .order_by(q.t0)
    )
    return [record(row) for row in connection.execute(query.limit(page_size(limit)))]

"""Rows of everything that is live: what the control loops and `explain` start from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, ScalarSelect, Select, and_, bindparam, case, exists, func, select

from steelyard.model.lifecycle import Outcome
from steelyard.store import tables as t
from steelyard.store.workloads import LIVE_ROWS

_CHUNK = 400
LiveRow = Row[Any]


def _attempts() -> Select[Any]:
    w, a = t.workload.c, t.attempt.c
    previous = t.attempt.alias("previous")
    return select(
        t.workload,
        t.shape.c.body_json,
        a.id.label("attempt_id"),
        a.phase.label("attempt_phase"),
        a.sub_stage,
        a.cluster.label("attempt_cluster"),
        a.submitted,
        a.eligible,
        a.reserved,
        a.placed,
        a.started,
        a.ready,
        a.stopping,
        a.ended,
        a.not_before,
        a.avoid_json,
        a.stop_reason,
        a.joins_off,
        a.policy_version.label("attempt_policy"),
        a.version.label("attempt_version"),
        a.outcome.label("attempt_outcome"),
        a.simulated.label("attempt_simulated"),
        previous.c.id.label("previous_id"),
        _sliced_until().label("sliced_until"),
        case((a.number > 1, served_before()), else_=0).label("served"),
    ).select_from(
        t.workload.join(t.attempt, and_(a.workload_id == w.id, a.number == w.attempt))
        .join(t.shape, t.shape.c.id == w.shape_id)
        .outerjoin(previous, and_(previous.c.workload_id == w.id, previous.c.number == w.attempt - 1))
    )


def served_before() -> ScalarSelect[Any]:
    """How long attempts of the workload before this one ran that were stopped for others, µs."""
    a, own = t.attempt.alias("earlier").c, t.attempt.c
    ran = func.coalesce(func.sum(a.ended - a.started), 0)
    found = select(ran).where(a.workload_id == own.workload_id, a.number < own.number)
    return found.where(a.outcome == Outcome.PREEMPTED.value).correlate(t.attempt).scalar_subquery()


def _sliced_until() -> ScalarSelect[Any]:
    """Where the wait slices end that holding and releasing a waiting attempt left; null without any."""
    w = t.wait_slice.c
    return select(func.max(w.t1)).where(w.attempt_id == t.attempt.c.id).scalar_subquery()


# Asked in every pass of the control loop, or at every submit: to build them takes longer than to run them.
_BY_ID = _attempts().where(t.workload.c.id.in_(bindparam("ids", expanding=True)))
_FINISHED = select(t.attempt.c.id).where(
    t.attempt.c.id.in_(bindparam("ids", expanding=True)),
    t.attempt.c.phase == "finished",
    ~exists().where(t.quarantine.c.attempt_id == t.attempt.c.id, t.quarantine.c.t1.is_(None)),
)
_LEFT = (
    select(t.member.c.id)
    .join(t.attempt, t.attempt.c.id == t.member.c.attempt_id)
    .where(
        t.member.c.id.in_(bindparam("ids", expanding=True)),
        t.member.c.apart,
        t.member.c.released_at.is_not(None) | (t.attempt.c.phase == "finished"),
        ~exists().where(t.quarantine.c.attempt_id == t.member.c.id, t.quarantine.c.t1.is_(None)),
    )
)
_COUNTERS = select(t.counter.c.name, t.counter.c.value)
_USAGE = select(t.quota_usage).where(t.quota_usage.c.used != 0)


def _by_id(row: LiveRow) -> int:
    return int(row.id)


def live_workloads(connection: Connection) -> Sequence[LiveRow]:
    """Every workload that is not finished, with its current attempt and its shape, by id."""
    found = connection.execute(_attempts().where(LIVE_ROWS)).all()
    return sorted(found, key=_by_id)  # in SQL the order would cost the index of live ones


def workloads_by_id(connection: Connection, ids: Iterable[int]) -> list[LiveRow]:
    """The same rows for these workloads, finished or not."""
    found: list[LiveRow] = []
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), _CHUNK):
        chunk = wanted[start : start + _CHUNK]
        found += connection.execute(_BY_ID, {"ids": chunk}).all()
    return found


def finished_attempts(connection: Connection, ids: Iterable[int]) -> list[int]:
    """Those among these attempts, and members that were apart, that are over and keep nothing in
    quarantine."""
    wanted = sorted(ids)
    found: list[int] = []
    for start in range(0, len(wanted), _CHUNK):
        chunk = {"ids": wanted[start : start + _CHUNK]}
        found += [row.id for row in connection.execute(_FINISHED, chunk)]
        found += [row.id for row in connection.execute(_LEFT, chunk)]
    return found


def resumable_parts(connection: Connection, attempt_id: int) -> dict[tuple[str, int], int]:
    """(role, index) of an attempt's members that were apart → the member."""
    m = t.member.c
    query = select(m.id, m.role, m.idx).where(m.attempt_id == attempt_id, m.apart).order_by(m.id)
    return {(row.role, row.idx): row.id for row in connection.execute(query)}


def members_of_live(connection: Connection) -> Sequence[LiveRow]:
    """Members of the current attempts of live workloads, with their node's name, by id; without those that
    left before."""
    w, a = t.workload.c, t.attempt.c
    current = and_(a.workload_id == w.id, a.number == w.attempt)
    attempts = select(a.id).select_from(t.workload.join(t.attempt, current)).where(LIVE_ROWS)
    query = (
        select(t.member, t.node.c.name.label("node_name"))
        .join(t.node, t.node.c.id == t.member.c.node_id)
        .where(t.member.c.attempt_id.in_(attempts), t.member.c.released_at.is_(None))
    )
    return sorted(connection.execute(query).all(), key=_by_id)


def members_left(connection: Connection) -> dict[int, tuple[int | None, int]]:
    """Of attempts that are live and lost members: when any were last asked to leave, and when the newest of
    them was released (0: none was)."""
    w, a, m = t.workload.c, t.attempt.c, t.member.c
    current = and_(a.workload_id == w.id, a.number == w.attempt)
    attempts = select(a.id).select_from(t.workload.join(t.attempt, current)).where(LIVE_ROWS)
    asked, at = func.max(m.leaving_at).label("asked"), func.max(m.released_at).label("at")
    query = select(m.attempt_id, asked, at).where(
        m.attempt_id.in_(attempts), m.leaving_at.is_not(None) | m.released_at.is_not(None)
    )
    found = connection.execute(query.group_by(m.attempt_id)).all()
    return {row.attempt_id: (row.asked, int(row.at or 0)) for row in found}


def open_allocations(connection: Connection) -> Sequence[LiveRow]:
    """Allocations whose holding has not ended, by id."""
    found = connection.execute(select(t.allocation).where(t.allocation.c.t1.is_(None))).all()
    return sorted(found, key=_by_id)


def nodes(connection: Connection) -> Sequence[LiveRow]:
    """Every node."""
    return connection.execute(select(t.node).order_by(t.node.c.id)).all()


def devices(connection: Connection) -> Sequence[LiveRow]:
    """Every device that is not retired, with its pool and flavor of now."""
    join = t.device.outerjoin(
        t.pool_member, and_(t.pool_member.c.device_id == t.device.c.id, t.pool_member.c.valid_to.is_(None))
    )
    query = select(t.device, t.pool_member.c.pool, t.pool_member.c.flavor).select_from(join)
    return connection.execute(query.where(t.device.c.retired_at.is_(None)).order_by(t.device.c.id)).all()


def conditions(connection: Connection) -> Sequence[LiveRow]:
    """What sources say now of devices that are not simply healthy and free of strangers."""
    return connection.execute(select(t.device_condition).where(t.device_condition.c.valid_to.is_(None))).all()


def flags(connection: Connection, ids: Iterable[int] | None = None) -> Sequence[LiveRow]:
    """Flags that stand now; with `ids` these flags, whether they stand or not."""
    f = t.flag.c
    query = select(t.flag).order_by(f.id)
    if ids is None:
        return connection.execute(query.where(f.valid_to.is_(None))).all()
    return connection.execute(query.where(f.id.in_(sorted(ids)))).all()


def node_versions(connection: Connection) -> dict[int, int]:
    """node → the version of what its open state row says."""
    s = t.node_state.c
    query = select(s.node_id, s.version).where(s.valid_to.is_(None))
    return {row.node_id: row.version for row in connection.execute(query)}


def meter_rows(connection: Connection, device_id: int | None = None) -> list[dict[str, Any]]:
    """The open state of the meter, or of one device of it, with what never changes of its device."""
    d = t.device.c
    query = select(t.device_meter, d.cluster, d.device_class.label("device_class"), d.simulated).select_from(
        t.device_meter.join(t.device, d.id == t.device_meter.c.device_id)
    )
    if device_id is not None:
        query = query.where(d.id == device_id)
    return [dict(row._mapping) for row in connection.execute(query.order_by(d.id))]


def quarantines(connection: Connection) -> Sequence[LiveRow]:
    """Quantities that are not offered because a release could not be confirmed."""
    return connection.execute(select(t.quarantine).where(t.quarantine.c.t1.is_(None))).all()


def holds(connection: Connection) -> Sequence[LiveRow]:
    """Places kept for preemptors."""
    return connection.execute(select(t.hold).order_by(t.hold.c.attempt_id)).all()


def uses(connection: Connection) -> Sequence[LiveRow]:
    """What is known of the use of attempts that are live."""
    u, a, w = t.use.c, t.attempt.c, t.workload.c
    current = and_(a.workload_id == w.id, a.number == w.attempt)
    live = select(a.id).select_from(t.workload.join(t.attempt, current)).where(LIVE_ROWS)
    return connection.execute(select(t.use).where(u.attempt_id.in_(live))).all()


def observations(connection: Connection) -> Sequence[LiveRow]:
    """When each cluster was last observed."""
    return connection.execute(select(t.observation).order_by(t.observation.c.cluster)).all()


def usage_counters(connection: Connection) -> dict[str, dict[tuple[str, str], int]]:
    """Stored usage by tree; zero is left out."""
    found: dict[str, dict[tuple[str, str], int]] = {}
    for row in connection.execute(_USAGE):
        found.setdefault(row.tree, {})[row.node, row.subject] = row.used
    return found


def open_shape_reasons(connection: Connection) -> Sequence[LiveRow]:
    """The reasons that stand, by shape."""
    return connection.execute(select(t.shape_reason).where(t.shape_reason.c.t1.is_(None))).all()


def shape_history(connection: Connection, shape_id: int, since: int) -> list[tuple[int, int | None, str]]:
    """(t0, t1, reasons JSON) of a shape that overlap [since, …), in order."""
    r = t.shape_reason.c
    query = select(r.t0, r.t1, r.reasons_json).where(
        r.shape_id == shape_id, (r.t1.is_(None)) | (r.t1 > since)
    )
    return [(row.t0, row.t1, row.reasons_json) for row in connection.execute(query.order_by(r.t0))]


def counters(connection: Connection) -> dict[str, int]:
    """Version counters: policy, organisation, inventory."""
    return {name: value for name, value in connection.execute(_COUNTERS)}


def declared_current(connection: Connection, kind: str) -> dict[str, str]:
    """name → spec JSON of the declared objects of a kind that are valid now."""
    d = t.declared.c
    query = select(d.name, d.spec_json).where(d.kind == kind, d.valid_to.is_(None)).order_by(d.name)
    return {row.name: row.spec_json for row in connection.execute(query)}


def blind_times(connection: Connection) -> Sequence[LiveRow]:
    """Clusters that are not observed now, and since when."""
    return connection.execute(select(t.coverage).where(t.coverage.c.t1.is_(None))).all()

"""Sums for those who watch an installation: small answers that cost as much as is live, not as ever was."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t
from steelyard.store.workloads import LIVE_ROWS


class Waiting(NamedTuple):
    """What waits in a queue: how many, and since when the first of them (µs)."""

    queue: str
    workloads: int
    since: int


def live_phases(connection: Connection) -> dict[str, int]:
    """phase → workloads in it; finished ones are not counted."""
    w = t.workload.c
    query = select(w.phase, func.count()).where(LIVE_ROWS).group_by(w.phase)
    return {phase: count for phase, count in connection.execute(query)}


def waiting(connection: Connection) -> list[Waiting]:
    """Queues in which something waits, by name."""
    w = t.workload.c
    query = (
        select(w.queue, func.count(), func.min(w.submitted_at))
        .where(LIVE_ROWS, w.phase == "queued")
        .group_by(w.queue)
        .order_by(w.queue)
    )
    return [Waiting(*row) for row in connection.execute(query)]


def quarantined(connection: Connection) -> dict[str, int]:
    """class → quantity kept back because a release was not proven."""
    q, d = t.quarantine.c, t.device.c
    query = (
        select(d.device_class, func.sum(q.quantity))
        .join(t.device, d.id == q.device_id)
        .where(q.t1.is_(None))
        .group_by(d.device_class)
    )
    return {device_class: int(quantity) for device_class, quantity in connection.execute(query)}


class Counted(NamedTuple):
    """Devices of a class of which something is so."""

    device_class: str
    value: str
    devices: int


def device_reasons(connection: Connection) -> list[Counted]:
    """Devices by class and by why they are not available; an empty reason: they are."""
    d = t.device.c
    reason = func.coalesce(d.reason, "")
    query = select(d.device_class, reason, func.count()).where(d.retired_at.is_(None))
    return [Counted(*row) for row in connection.execute(query.group_by(d.device_class, reason))]


def device_health(connection: Connection) -> list[Counted]:
    """Devices by class and health, but for healthy ones."""
    d, c = t.device.c, t.device_condition.c
    query = (
        select(d.device_class, c.health, func.count())
        .join(t.device, d.id == c.device_id)
        .where(c.valid_to.is_(None), c.health != "healthy")
        .group_by(d.device_class, c.health)
    )
    return [Counted(*row) for row in connection.execute(query)]


def device_flags(connection: Connection) -> list[Counted]:
    """Devices by class and by a flag that stands on them or on their node; each flag counts for itself."""
    d, f = t.device.c, t.flag.c
    query = (
        select(d.device_class, f.flag, func.count(func.distinct(d.id)))
        .join(t.device, (d.id == f.object_id) | (d.node_id == f.object_id))
        .where(f.valid_to.is_(None), d.retired_at.is_(None))
        .group_by(d.device_class, f.flag)
    )
    return [Counted(*row) for row in connection.execute(query)]

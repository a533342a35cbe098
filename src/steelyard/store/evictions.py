"""Reading what was stopped for something else: by instant, by preemptor, and summed by queue."""

from __future__ import annotations

from typing import Any

import msgspec
from sqlalchemy import Connection, select

from steelyard.store import tables as t
from steelyard.store.scoped import Record, record

_e = t.eviction.c


def evicted_between(
    connection: Connection, after: int, before: int | None = None
) -> dict[str, tuple[int, ...]]:
    """Queue for whose work → when, of all evictions after one instant and before another, in order."""
    query = select(_e.preemptor_queue, _e.at).where(_e.at > after, _e.preemptor_queue.is_not(None))
    if before is not None:
        query = query.where(_e.at < before)
    found: dict[str, list[int]] = {}
    for queue, at in connection.execute(query.order_by(_e.at, _e.attempt_id)):
        found.setdefault(queue, []).append(at)
    return {queue: tuple(instants) for queue, instants in found.items()}


def newest(connection: Connection) -> int:
    """When the newest eviction was decided (µs); 0 before the first."""
    return int(connection.execute(select(_e.at).order_by(_e.at.desc()).limit(1)).scalar() or 0)


def made_for(connection: Connection, workload_id: int) -> list[Record]:
    """Evictions by which this workload got its place, in order."""
    query = select(t.eviction).where(_e.preemptor_id == workload_id).order_by(_e.at, _e.attempt_id)
    return [record(row) for row in connection.execute(query)]


def sums(connection: Connection, after: int) -> dict[str, dict[str, Any]]:
    """Queue for whose work → `{count, evicted, requested, lost_time}` since then; quantities by class."""
    columns = (_e.preemptor_queue, _e.quantity_json, _e.requested_json, _e.lost_time)
    found: dict[str, dict[str, Any]] = {}
    query = select(*columns).where(_e.at > after, _e.preemptor_id.is_not(None))
    for queue, quantity, requested, lost in connection.execute(query):
        if queue is None:
            continue
        entry = found.setdefault(queue, {"count": 0, "evicted": {}, "requested": {}, "lost_time": 0})
        entry["count"] += 1
        entry["lost_time"] += lost
        for name, body in (("evicted", quantity), ("requested", requested)):
            for device_class, amount in (msgspec.json.decode(body) if body else {}).items():
                entry[name][device_class] = entry[name].get(device_class, 0) + amount
    return found

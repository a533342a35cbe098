"""How many workloads of each shape live, by phase: a shape knows its user."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from steelyard.model.organisation import Scope
from steelyard.store import tables as t
from steelyard.store.scoped import Scoped
from steelyard.store.workloads import LIVE_ROWS

_w = t.workload.c
_BY = (_w.shape_id, _w.phase)
_COUNTS = Scoped(select(*_BY, func.count().label("live")).where(LIVE_ROWS).group_by(*_BY), _w.project)


def live_by_shape(connection: Connection, scope: Scope) -> dict[tuple[int, str], int]:
    """Live workloads by (shape, phase)."""
    rows = [*_COUNTS.run(connection, scope)]
    return {(row.shape_id, row.phase): row.live for row in rows}

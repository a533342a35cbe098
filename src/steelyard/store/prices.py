"""The mix of work that came lately, of which price lists are made."""

from __future__ import annotations

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t


def arrived_lately(connection: Connection, most: int) -> dict[int, int]:
    """By shape, how many of the workloads submitted last there are, of at most so many."""
    w = t.workload.c
    lately = select(w.shape_id).order_by(w.id.desc()).limit(most).subquery()
    query = select(lately.c.shape_id, func.count()).group_by(lately.c.shape_id)
    return {row[0]: row[1] for row in connection.execute(query)}

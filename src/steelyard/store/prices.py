"""Price lists as they were made, and the mix of work that came lately, of which they are made."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t


def newest_list(connection: Connection) -> tuple[int, str] | None:
    """(its instant, body) of the list made last."""
    p = t.price_list.c
    row = connection.execute(select(p.at, p.body_json).order_by(p.at.desc()).limit(1)).first()
    return None if row is None else (row.at, row.body_json)


def list_at(connection: Connection, at: int) -> str | None:
    """The body of the list of an instant."""
    p = t.price_list.c
    found = connection.execute(select(p.body_json).where(p.at == at)).scalar()
    return None if found is None else str(found)


def arrived_lately(connection: Connection, most: int) -> dict[int, int]:
    """By shape, how many of the workloads submitted last there are, of at most so many."""
    w = t.workload.c
    lately = select(w.shape_id).order_by(w.id.desc()).limit(most).subquery()
    query = select(lately.c.shape_id, func.count()).group_by(lately.c.shape_id)
    return {row[0]: row[1] for row in connection.execute(query)}


def lists_before(connection: Connection, before: int, limit: int) -> list[dict[str, Any]]:
    """Keys of lists older than this, but for the newest of them, on which what came after rests."""
    p = t.price_list.c
    newest = select(func.max(p.at)).where(p.at < before).scalar_subquery()
    query = select(p.at).where(p.at < before, p.at < newest).order_by(p.at).limit(limit)
    return [{"at": row.at} for row in connection.execute(query)]

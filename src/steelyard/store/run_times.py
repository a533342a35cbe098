"""What finished runs taught of how long work takes, as it was known at some instants."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, func, select

from steelyard.store import tables as t


def newest_run_times(connection: Connection) -> str | None:
    """The body learned last."""
    r = t.run_times.c
    return connection.execute(select(r.body_json).order_by(r.at.desc()).limit(1)).scalar()


def run_times_of(connection: Connection, at: int) -> str | None:
    """The body of an instant."""
    r = t.run_times.c
    return connection.execute(select(r.body_json).where(r.at == at)).scalar()


def run_times_before(connection: Connection, before: int, limit: int) -> list[dict[str, Any]]:
    """Keys of what is older than this, but for the newest of it, on which what came after rests."""
    r = t.run_times.c
    newest = select(func.max(r.at)).where(r.at < before).scalar_subquery()
    query = select(r.at).where(r.at < before, r.at < newest).order_by(r.at).limit(limit)
    return [{"at": row.at} for row in connection.execute(query)]

"""Inputs of decisions that are stored as they were at some instants: tables of (`at`, `body_json`).

Sums of what was used, price lists, run times that were learned: a cycle names the instant of the one it used.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, func, select


def newest(connection: Connection, table: Table) -> tuple[int, str] | None:
    """(its instant, body) of the one made last."""
    c = table.c
    row = connection.execute(select(c.at, c.body_json).order_by(c.at.desc()).limit(1)).first()
    return None if row is None else (row.at, row.body_json)


def body_at(connection: Connection, table: Table, at: int) -> str | None:
    """The body of an instant."""
    c = table.c
    found = connection.execute(select(c.body_json).where(c.at == at)).scalar()
    return None if found is None else str(found)


def older(connection: Connection, table: Table, before: int, limit: int) -> list[dict[str, Any]]:
    """Keys of those older than this, but for the newest of them, on which what came after rests."""
    c = table.c
    last = select(func.max(c.at)).where(c.at < before).scalar_subquery()
    query = select(c.at).where(c.at < before, c.at < last).order_by(c.at).limit(limit)
    return [{"at": row.at} for row in connection.execute(query)]

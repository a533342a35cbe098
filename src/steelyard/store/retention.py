"""Rows that may go: what is older than its time, a bounded number at once, by primary key."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Table, func, select

from steelyard.store import tables as t
from steelyard.store.estimates import old_estimates
from steelyard.store.installation import read_setting
from steelyard.store.scoped import Record, record
from steelyard.store.versioned import older

#: Until when (µs) cycles were purged.
PURGED_CYCLES = "purged-cycles"
#: The document of a refusal whose details were purged.
NOTHING = "null"


def old_cycles(connection: Connection, before: int, limit: int) -> list[Record]:
    """Keys of cycles older than this; the newest one stays, and those that a standing hold was made in."""
    c = t.cycle.c
    newest = select(func.max(c.id)).scalar_subquery()
    query = select(c.id).where(c.at < before, c.id < newest, c.at.not_in(select(t.hold.c.at)))
    return _keys(connection, query.order_by(c.id).limit(limit))


def old_answers(connection: Connection, before: int, limit: int) -> list[Record]:
    """Keys of answers recorded under an Idempotency-Key."""
    i = t.idempotency.c
    return _keys(connection, select(i.principal, i.key).where(i.at < before).limit(limit))


def old_credentials(connection: Connection, before: int, limit: int) -> list[Record]:
    """Keys of credentials that expired or were revoked before this."""
    c = t.credential.c
    query = select(c.id).where((c.expires_at < before) | (c.revoked_at < before))
    return _keys(connection, query.limit(limit))


def old_refusals(connection: Connection, before: int, limit: int) -> list[Record]:
    """Refusals older than this that still have their details: `id`, `reasons_json`."""
    r = t.refusal.c
    query = select(r.id, r.reasons_json).where(r.at < before, r.asked_json != NOTHING)
    return _keys(connection, query.order_by(r.id).limit(limit))


def _keys(connection: Connection, query: Any) -> list[Record]:
    return [record(row) for row in connection.execute(query)]


def cycles_purged_until(connection: Connection) -> int:
    """Cycles older than this (µs) are gone; 0: none."""
    return int(read_setting(connection, PURGED_CYCLES) or 0)


def _older(table: Table) -> Any:
    return lambda connection, before, limit: older(connection, table, before, limit)


DELETED: dict[str, tuple[Table, Any]] = {
    "cycles": (t.cycle, old_cycles),
    "estimates": (t.start_estimate, old_estimates),
    "history": (t.use_history, _older(t.use_history)),
    "prices": (t.price_list, _older(t.price_list)),
    "run-times": (t.run_times, _older(t.run_times)),
    "idempotency": (t.idempotency, old_answers),
    "credentials": (t.credential, old_credentials),
}

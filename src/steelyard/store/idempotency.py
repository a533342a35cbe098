"""Reading answers that were recorded under an Idempotency-Key."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import Connection, select

from steelyard.store import tables as t


class RecordedAnswer(NamedTuple):
    """What was asked (as a digest) and what was answered."""

    request_digest: str
    status: int
    response_json: str


def recorded(connection: Connection, principal: str, key: str) -> RecordedAnswer | None:
    """The answer under a principal's own key."""
    i = t.idempotency.c
    query = select(i.request_digest, i.status, i.response_json).where(i.principal == principal, i.key == key)
    row = connection.execute(query).first()
    return None if row is None else RecordedAnswer(row.request_digest, row.status, row.response_json)

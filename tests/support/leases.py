"""The lease as it stands in a shared PostgreSQL, for tests of several servers."""

from __future__ import annotations

import time

import psycopg


def lease(database: str) -> tuple[str, int]:
    """(holder, epoch) as it stands."""
    with psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute("SELECT holder, epoch FROM lease").fetchone()
    assert row is not None
    return str(row[0]), int(row[1])


def wait_taken(database: str, epoch: int) -> float:
    """Seconds until the lease has a later epoch."""
    began = time.monotonic()
    while lease(database)[1] <= epoch:
        assert time.monotonic() - began < 60, "nobody took over"
        time.sleep(0.05)
    return time.monotonic() - began

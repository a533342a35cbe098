"""Connections: SQLite (WAL, synchronous FULL, BEGIN IMMEDIATE) and PostgreSQL under one roof."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import QueuePool

from steelyard.model.errors import InvalidError

#: A read view, for those who pass one to a repository without knowing SQL.
View: TypeAlias = Connection

SQLITE_NAME = "steelyard.db"
#: A server that is stopped in the middle of a write has its locks taken from it after this time: between two
#: commands by the database, in the middle of one by whoever waits (`end_stopped_writers`).
_STOPPED_WRITER = "SET LOCAL idle_in_transaction_session_timeout = '4s'; SET LOCAL lock_timeout = '4s'"
_END_STOPPED = """
SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a
JOIN pg_locks l ON l.pid = a.pid AND l.granted
  AND l.mode = 'RowExclusiveLock' AND l.relation = 'log'::regclass
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.wait_event_type = 'Client'
  AND a.state_change < clock_timestamp() - interval '4 seconds'
"""


def sqlite_url(folder: Path) -> str:
    """The embedded database of a data folder."""
    return f"sqlite:///{folder / SQLITE_NAME}"


def open_database(url: str) -> Engine:
    """An engine for `sqlite:///…` or `postgresql://…`. Raises InvalidError for any other URL."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise InvalidError("database-url-invalid") from None
    backend = parsed.get_backend_name()
    if backend == "sqlite":
        return _open_sqlite(parsed)
    if backend == "postgresql":
        return create_engine(
            parsed.set(drivername="postgresql+psycopg"),
            pool_size=12,
            max_overflow=8,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )
    raise InvalidError("database-kind-unknown", kind=backend)


def _make_private(path: str | None) -> None:
    """The file, readable by its owner only; SQLite gives its companions the same mode. A file that can't be
    made is SQLite's to complain of."""
    if path and path != ":memory:":
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


def _open_sqlite(url: URL) -> Engine:
    _make_private(url.database)
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        poolclass=QueuePool,
        pool_size=20,
        max_overflow=0,
        pool_use_lifo=True,  # no more connections than are used at once, each with what it prepared and read
        connect_args={"check_same_thread": False, "timeout": 30.0},
    )

    @event.listens_for(engine, "connect")
    def _configure(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # transactions are begun below, not by the driver
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            # pages that a connection keeps to itself: every commit of another one empties it, and the
            # machine's own cache lies behind it. What a transaction changed is kept whole up to 8 MiB.
            "cache_size=-2048",
            "cache_spill=-8192",
            "wal_autocheckpoint=4000",
            "busy_timeout=30000",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        writing = connection.get_execution_options().get("writing", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writing else "BEGIN")

    return engine


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """A transaction that takes the write lock at once, so that it can't fail half-way for a lock."""
    with engine.connect() as connection:
        writer = connection.execution_options(writing=True)
        with writer.begin():
            if engine.dialect.name == "postgresql":
                writer.exec_driver_sql(_STOPPED_WRITER)
            yield writer


def end_stopped_writers(engine: Engine) -> int:
    """End sessions that hold the log and from which nothing came for 4 s; how many they were.

    The database waits without bound for a client that was stopped, or cut off, in the middle of a batch of
    commands (libpq's pipeline): no timeout of PostgreSQL before 17 covers that. SQLite has no such clients.
    """
    if engine.dialect.name != "postgresql":
        return 0
    with engine.connect() as connection, connection.begin():
        return len(connection.exec_driver_sql(_END_STOPPED).all())


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """One consistent view: a snapshot in SQLite's WAL, REPEATABLE READ in PostgreSQL."""
    options = {} if engine.dialect.name == "sqlite" else {"isolation_level": "REPEATABLE READ"}
    with engine.connect() as connection:
        view = connection.execution_options(**options)
        with view.begin():
            yield view

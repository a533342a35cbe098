"""All rows of a database as text, and back into an empty one: the same form for SQLite and PostgreSQL.

The tables are those that the database has, at whatever release it stands; the program's own description of
them is not asked. A row is one JSON array in the order of its table's columns; bytes are base64 text.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, Engine, LargeBinary, MetaData, Table, insert, inspect, select, update
from sqlalchemy.exc import SQLAlchemyError

from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.store import tables as t
from steelyard.store.database import open_database, reading, writing
from steelyard.store.failures import brief
from steelyard.store.installation import read_setting

#: Written in the transaction that loads the rows, taken away with the leaf that says so.
UNFINISHED = "restore-unfinished"
#: When a backup was last restored into this database, µs UTC.
RESTORED_AT = "restored-at"
_VERSION = "alembic_version"
_ROWS = 500
#: Servers that started after the copy was made have numbers that it does not know of.
_SERVERS_SINCE = 100
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(list[Any]).decode


@contextmanager
def view_of(url: str) -> Iterator[Connection]:
    """One consistent view of a database that nothing else of this process has open; changes nothing.

    Raises InvalidError for the address, UnavailableError `database-unusable`.
    """
    with _opened(url) as engine, reading(engine) as view:
        yield view


@contextmanager
def filling(url: str) -> Iterator[Connection]:
    """One transaction in which a database is filled. Raises as `view_of`."""
    with _opened(url) as engine, writing(engine) as connection:
        yield connection


@contextmanager
def _opened(url: str) -> Iterator[Engine]:
    engine = open_database(url)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise UnavailableError("database-unusable", cause=brief(error)) from None
    finally:
        engine.dispose()


def shown_address(connection: Connection) -> str:
    """The address of the database, without its password."""
    return connection.engine.url.render_as_string()


def revision(connection: Connection) -> str | None:
    """The migration at which the database stands; None for an empty one."""
    return MigrationContext.configure(connection).get_current_revision()


def is_empty(connection: Connection) -> bool:
    """True where there is no table at all."""
    return not inspect(connection).get_table_names()


def all_tables(connection: Connection) -> dict[str, Table]:
    """Every table that holds rows of ours, by name."""
    metadata = MetaData()
    metadata.reflect(bind=connection)
    return {str(name): table for name, table in sorted(metadata.tables.items()) if name != _VERSION}


def columns_of(table: Table) -> tuple[str, ...]:
    """The columns, in the order of the values of its rows."""
    return tuple(str(column.name) for column in table.columns)


def dump(connection: Connection, table: Table) -> Iterator[bytes]:
    """A line for each row, in the order of the primary key; few rows are in memory at a time."""
    query = select(table).order_by(*table.primary_key.columns)
    for row in connection.execution_options(yield_per=_ROWS).execute(query):
        yield _encode(list(row)) + b"\n"


def load(connection: Connection, table: Table, columns: Iterable[str], lines: Iterable[bytes]) -> int:
    """Make these the table's rows; how many they are. Raises InvalidError `backup-malformed`."""
    names = tuple(columns)
    if set(names) != {column.name for column in table.columns}:
        raise InvalidError("backup-malformed", path=table.name)
    connection.execute(table.delete())  # what a migration puts there is in the copy, too
    binary = {name for name in names if isinstance(table.columns[name].type, LargeBinary)}
    count, rows, statement = 0, list[Mapping[str, Any]](), insert(table)
    for line in lines:
        rows.append(_row(table.name, names, binary, line))
        if len(rows) == _ROWS:
            connection.execute(statement, rows)
            count, rows = count + len(rows), []
    if rows:
        connection.execute(statement, rows)
    return count + len(rows)


def _row(table: str, names: tuple[str, ...], binary: set[str], line: bytes) -> dict[str, Any]:
    try:
        values = dict(zip(names, _decode(line), strict=True))
        for name in binary:
            if values[name] is not None:
                values[name] = b64decode(values[name], validate=True)
    except (msgspec.MsgspecError, binascii.Error, TypeError, ValueError):
        raise InvalidError("backup-malformed", path=table) from None
    return values


def mark_unfinished(connection: Connection) -> None:
    """Note that the rows are there and the leaf that says so is not; servers' numbers are left out."""
    connection.execute(insert(t.setting).values(name=UNFINISHED, value="1"))
    counter = t.counter
    connection.execute(
        update(counter).where(counter.c.name == "server").values(value=counter.c.value + _SERVERS_SINCE)
    )


def is_unfinished(connection: Connection) -> bool:
    """Whether a restore into this database was broken off."""
    return read_setting(connection, UNFINISHED) is not None


def open_sessions(connection: Connection, kinds: Iterable[str], now: int) -> list[int]:
    """Ids of credentials of these kinds that are neither revoked nor expired."""
    c = t.credential.c
    query = select(c.id).where(
        c.kind.in_(sorted(kinds)), c.revoked_at.is_(None), c.expires_at.is_(None) | (c.expires_at > now)
    )
    return list(connection.execute(query.order_by(c.id)).scalars())

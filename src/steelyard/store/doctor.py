"""What a database says of itself."""

from __future__ import annotations

import os

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text


def database_facts(connection: Connection) -> dict[str, str | None]:
    """Its version and the schema's."""
    query = "SELECT sqlite_version()" if connection.dialect.name == "sqlite" else "SHOW server_version"
    version = str(connection.execute(text(query)).scalar_one())
    schema = MigrationContext.configure(connection).get_current_revision()
    return {"version": version, "schema": schema}


def is_writable(connection: Connection) -> bool:
    """Whether it takes writes at all: no standby, no read-only session, no file that may not be written."""
    if connection.dialect.name != "sqlite":
        query = "SELECT NOT pg_is_in_recovery() AND current_setting('default_transaction_read_only') = 'off'"
        return bool(connection.execute(text(query)).scalar_one())
    path = connection.engine.url.database
    return path is None or os.access(path, os.W_OK)

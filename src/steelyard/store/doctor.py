"""What a database says of itself."""

from __future__ import annotations

from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text


def database_facts(connection: Connection) -> dict[str, str | None]:
    """Its version and the schema's."""
    query = "SELECT sqlite_version()" if connection.dialect.name == "sqlite" else "SHOW server_version"
    version = str(connection.execute(text(query)).scalar_one())
    schema = MigrationContext.configure(connection).get_current_revision()
    return {"version": version, "schema": schema}

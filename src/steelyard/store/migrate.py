"""Bring a database to the newest schema. Released migrations are never edited."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine

from steelyard.model.errors import UnavailableError
from steelyard.store.database import writing

_FOLDER = Path(__file__).parent / "migrations"
#: Two servers that start at once on PostgreSQL upgrade one after the other.
_ADVISORY_LOCK = 7580


def upgrade(engine: Engine) -> None:
    """Upgrade in one transaction. Raises UnavailableError when the database is newer than this program."""
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        current = MigrationContext.configure(connection).get_current_revision()
        if current == script.get_current_head():
            return
        if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
            raise UnavailableError("database-newer", revision=current)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")

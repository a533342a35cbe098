"""Bring a database to the newest schema. Released migrations are never edited."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine

from steelyard.model.errors import UnavailableError
from steelyard.store.database import writing

_FOLDER = Path(__file__).parent / "migrations"
#: Two servers that start at once on PostgreSQL upgrade one after the other.
_ADVISORY_LOCK = 7580


def upgrade(engine: Engine) -> None:
    """Upgrade in one transaction. Raises UnavailableError when the database is newer than this program."""
    with writing(engine) as connection:
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (_ADVISORY_LOCK,))
        if pending(connection):
            upgrade_to(connection, _known()[-1])


def pending(connection: Connection) -> list[str]:
    """The migrations that the database has not had yet, in order; changes nothing.

    Raises UnavailableError `database-newer` when it has had one that this program does not know.
    """
    known = _known()
    current = MigrationContext.configure(connection).get_current_revision()
    if current is None:
        return list(known)
    if current not in known:
        raise UnavailableError("database-newer", revision=current)
    return list(known[known.index(current) + 1 :])


@cache
def _known() -> tuple[str, ...]:
    """Every migration of this program, the first one first."""
    script = ScriptDirectory.from_config(_config())
    return tuple(revision.revision for revision in script.walk_revisions())[::-1]


def upgrade_to(connection: Connection, revision: str) -> None:
    """Bring the database to a revision, in the caller's transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER).replace("%", "%%"))
    return config

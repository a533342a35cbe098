"""The released migrations make exactly the tables that the program describes."""

from __future__ import annotations

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from steelyard.model.errors import UnavailableError
from steelyard.store.database import writing
from steelyard.store.migrate import upgrade
from steelyard.store.store import Store
from steelyard.store.tables import metadata


def test_a_migrated_database_has_the_tables_of_the_program(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_upgrading_twice_changes_nothing(store: Store) -> None:
    upgrade(store.engine)
    with store.engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM log")).scalar_one() == 1


def test_a_database_of_a_newer_program_is_refused(store: Store) -> None:
    with writing(store.engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(UnavailableError) as refused:
        upgrade(store.engine)
    assert refused.value.code == "database-newer"

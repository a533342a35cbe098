"""The released migrations make exactly the tables that the program describes."""

from __future__ import annotations

from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from steelyard.model.errors import UnavailableError
from steelyard.store.database import open_database, sqlite_url, writing
from steelyard.store.migrate import upgrade, upgrade_to
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


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_devices_of_an_older_database_keep_their_rows_and_get_reasons_and_a_history(
    database: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = sqlite_url(tmp_path)
    if database == "postgresql":
        url = str(request.getfixturevalue("postgresql_database"))
    engine = open_database(url)
    node = "INSERT INTO node (id, cluster, name, availability, labels_json, version) VALUES "
    device = (
        "INSERT INTO device (id, cluster, node_id, uid, class, family, model, capacity, availability, "
        "reason, registered_at, version) VALUES (:id, 'c', 1, :uid, 'gpu', 'nvidia', 'A100', 1000, "
        ":availability, :reason, :at, 1)"
    )
    rows = [("available", None), ("available", "stale"), ("unknown", None), ("unavailable.planned", "fenced")]
    with writing(engine) as connection:
        upgrade_to(connection, "0008")
        connection.execute(text(node + "(1, 'c', 'n', 'available', '{}', 1)"))
        for number, (availability, reason) in enumerate(rows, 1):
            values = {"id": number, "uid": f"u{number}", "availability": availability, "reason": reason}
            connection.execute(text(device), values | {"at": 70 + number})
    upgrade(engine)
    with engine.connect() as connection:
        found = connection.execute(text("SELECT availability, reason, model FROM device ORDER BY id")).all()
        state = connection.execute(text("SELECT node_id, valid_from, valid_to FROM node_state")).all()
    assert [tuple(row) for row in found] == [
        ("available", None, "A100"), ("available", None, "A100"), ("unknown", "health-unknown", "A100"),
        ("unavailable.planned", "fenced", "A100"),
    ]  # fmt: skip
    assert [tuple(row) for row in state] == [(1, 71, None)]
    engine.dispose()

"""The tests' own PostgreSQL is what they take it for."""

import psycopg
import pytest

from tests.support import postgresql


def test_the_server_keeps_its_durability_settings(postgresql_url: str) -> None:
    with psycopg.connect(postgresql_url) as connection:
        for setting in ("fsync", "full_page_writes", "synchronous_commit"):
            assert connection.execute(f"SHOW {setting}").fetchone() == ("on",)


def test_a_fresh_database_is_empty(postgresql_url: str, postgresql_database: str) -> None:
    assert postgresql_database != postgresql_url
    with psycopg.connect(postgresql_database) as connection:
        assert connection.execute("SELECT count(*) FROM pg_stat_user_tables").fetchone() == (0,)


def test_a_database_is_dropped_under_an_open_connection(postgresql_server: postgresql.Server) -> None:
    with postgresql.fresh_database(postgresql_server) as url:
        forgotten = psycopg.connect(url)
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(url)
    forgotten.close()


def test_the_server_asks_for_the_password(postgresql_server: postgresql.Server) -> None:
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgresql_server.url().replace(postgresql_server.password, "guess"))


def test_a_missing_server_is_said_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgresql.shutil, "which", lambda _name: None)
    monkeypatch.setattr(postgresql.Path, "glob", lambda _self, _pattern: iter(()))
    with pytest.raises(postgresql.PostgresqlMissing, match="apt-get install postgresql"):
        postgresql.find_programs()

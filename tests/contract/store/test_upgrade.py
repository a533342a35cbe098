"""A database as the first release left it, with work in it, is brought to this one and goes on."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text

from steelyard.model.errors import UnavailableError
from steelyard.model.ids import render
from steelyard.services.checks import check_everything
from steelyard.store.archive import all_tables
from steelyard.store.database import open_database, reading, sqlite_url, writing
from steelyard.store.migrate import pending, upgrade_to
from steelyard.store.store import Store
from steelyard.upkeep import upgrade
from tests.support.house import House, VirtualClock

FIRST = "0001"
#: What the first release wrote into columns that there are no more.
GONE = {"quota_limit": {"weight": 1000}}


@pytest.fixture(params=["sqlite", "postgresql"])
def old(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a database of the first release: ended, running and waiting work, and a refusal."""
    made = House(sqlite_url(tmp_path), tmp_path)
    made.submit("ended", expect={"run": "20ms"})
    made.run_dry()
    for name in ("runs", "runs-too", "waits"):
        made.submit(name, expect={"run": "5s"}, requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    made.tick(20)
    folder = tmp_path / "old"
    folder.mkdir()
    url = sqlite_url(folder) if request.param == "sqlite" else request.getfixturevalue("postgresql_database")
    engine = open_database(url)
    with reading(made.store.engine) as source, writing(engine) as target:
        upgrade_to(target, FIRST)
        copy_known(source, target)
    engine.dispose()
    made.loop.close()
    made.store.close()
    return url


def copy_known(source: Connection, target: Connection) -> None:
    """All rows, of the tables and columns that the first release had."""
    newer = all_tables(source)
    for name, table in all_tables(target).items():
        gone = GONE.get(name, {})
        columns = [column.name for column in table.columns if column.name not in gone]
        rows = source.execute(select(*(newer[name].c[column] for column in columns))).all()
        if rows:
            target.execute(insert(table), [dict(zip(columns, row, strict=True)) | gone for row in rows])


def test_a_database_of_the_first_release_is_upgraded_with_its_work_and_goes_on(
    old: str, tmp_path: Path
) -> None:
    clock = VirtualClock()
    clock.advance(60_000_000)
    again = House(old, tmp_path, "", clock=clock)
    try:
        assert again.live
        again.run_dry()
        assert [check for check in check_everything(again.store) if not check.ok] == []
        assert {again.show(row)["phase"] for row in all_workloads(again)} == {"finished"}
    finally:
        again.close()


def all_workloads(house: House) -> list[str]:
    """Their ids."""
    with house.store.read() as view:
        numbers = view.execute(text("SELECT id FROM workload")).scalars()
        return [render("workload", number) for number in numbers]


def test_what_is_missing_is_said_and_made_only_when_asked(
    old: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    engine = open_database(old)
    with reading(engine) as view:
        missing = pending(view)
    assert upgrade(tmp_path, old, True, "en") == (1 if missing else 0)
    assert all(revision in capsys.readouterr().out for revision in missing[:1])
    with reading(engine) as view:
        assert pending(view) == missing
    assert upgrade(tmp_path, old, False, "en") == 0
    with reading(engine) as view:
        assert pending(view) == []
    assert upgrade(tmp_path, old, True, "en") == 0
    engine.dispose()


def test_a_database_of_a_newer_release_is_refused_and_not_touched(old: str) -> None:
    engine = open_database(old)
    with writing(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
        before = connection.execute(text("SELECT value FROM counter WHERE name = 'server'")).scalar()
    with pytest.raises(UnavailableError, match="database-newer"):
        Store(old, VirtualClock())
    with reading(engine) as view:
        assert view.execute(text("SELECT value FROM counter WHERE name = 'server'")).scalar() == before
    engine.dispose()

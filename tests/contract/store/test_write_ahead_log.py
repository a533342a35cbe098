"""A write-ahead log that was cut off, as by a machine that lost power: what is there is whole."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from steelyard.store.database import SQLITE_NAME, sqlite_url
from steelyard.store.store import Store
from tests.support.ledger import accounts, born, changed, check
from tests.support.stores import Clock

CUTS = 200


@pytest.fixture(scope="module")
def used(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A database with half of its commits in the write-ahead log, as it lies on disk; all names in order."""
    folder, copy = tmp_path_factory.mktemp("used"), tmp_path_factory.mktemp("copy")
    store = Store(sqlite_url(folder), Clock())
    store.start()
    names = []
    for number in range(120):
        if number == 40:
            with store.engine.connect() as connection:
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        unit, thing = born(store, f"{number}")
        store.writer.write(unit)
        store.writer.write(changed(thing))
        names.append(f"{number}")
    for suffix in ("", "-wal"):
        shutil.copy(folder / f"{SQLITE_NAME}{suffix}", copy)
    store.close()
    return copy, names


def _open_cut(used: Path, folder: Path, size: int) -> Store:
    folder.mkdir()
    for suffix in ("", "-wal"):
        shutil.copy(used / f"{SQLITE_NAME}{suffix}", folder)
    with open(folder / f"{SQLITE_NAME}-wal", "rb+") as log:
        log.truncate(size)
    return Store(sqlite_url(folder), Clock())


def test_cut_at_200_random_bytes_it_recovers_to_a_commit(
    used: tuple[Path, list[str]], tmp_path: Path
) -> None:
    copy, names = used
    whole = (copy / f"{SQLITE_NAME}-wal").stat().st_size
    chosen = random.Random(7580)
    found = set()
    for number in range(CUTS):
        size = chosen.randrange(whole + 1)
        store = _open_cut(copy, tmp_path / str(number), size)
        leaves = check(store)
        there = accounts(store)
        assert there == set(names[: len(there)])
        assert leaves in (2 * len(there), 2 * len(there) - 1)
        assert len(there) >= 40
        found.add(leaves)
        if number % 20 == 0:
            store.start()
            store.writer.write(born(store, "after")[0])
            assert check(store) == leaves + 1
        store.close()
        shutil.rmtree(tmp_path / str(number))
    assert len(found) > CUTS // 4, "the cuts were at too few commits"


def test_garbage_in_the_log_ends_it_there(used: tuple[Path, list[str]], tmp_path: Path) -> None:
    copy, _ = used
    whole = (copy / f"{SQLITE_NAME}-wal").stat().st_size
    chosen = random.Random(7581)
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(copy / f"{SQLITE_NAME}{suffix}", folder)
        with open(folder / f"{SQLITE_NAME}-wal", "rb+") as log:
            log.seek(chosen.randrange(whole - 64))
            log.write(chosen.randbytes(64))
        store = Store(sqlite_url(folder), Clock())
        assert check(store) >= 80
        store.close()
        with sqlite3.connect(folder / SQLITE_NAME) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

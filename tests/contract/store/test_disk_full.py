"""A full disk: a coded error, nothing lost, and work again when there is room."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event

from steelyard.model.errors import SteelyardError, UnavailableError
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.ledger import accounts, born, check
from tests.support.stores import Clock


class Ceiling:
    """The most pages that the database may have, set on every connection from outside."""

    def __init__(self, store: Store) -> None:
        self.pages = 2**30
        event.listen(store.engine, "checkout", self._set)

    def _set(self, connection: Any, *_rest: object) -> None:
        connection.execute(f"PRAGMA max_page_count={self.pages}")

    def close_in(self, store: Store) -> None:
        """No room for another page."""
        with store.engine.connect() as connection:
            self.pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())


def _fill(store: Store, most: int = 3000) -> tuple[set[str], SteelyardError]:
    written: set[str] = set()
    for number in range(most):
        name = f"{number}-" + "x" * 400
        try:
            store.writer.write(born(store, name)[0])
        except SteelyardError as error:
            return written, error
        written.add(name)
    raise AssertionError("the disk never became full")


def test_a_database_that_may_not_grow_is_a_coded_error_and_loses_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    store = Store(sqlite_url(tmp_path), clock)
    store.start()
    ceiling = Ceiling(store)
    ceiling.close_in(store)
    written, error = _fill(store)
    assert isinstance(error, UnavailableError)
    assert (error.code, error.params["detail"]) == ("database-failed", "OperationalError: disk full")
    assert accounts(store) == written
    check(store)
    ceiling.pages = 2**30
    store.writer.write(born(store, "after")[0])
    assert accounts(store) == {*written, "after"}
    assert check(store) == len(written) + 1
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MiB; only root can make one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system of our own can be mounted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_disk_without_room_is_a_coded_error_and_loses_nothing(small_disk: Path, clock: Clock) -> None:
    ballast = small_disk / "ballast"
    store = Store(sqlite_url(small_disk), clock)
    store.start()
    ballast.write_bytes(b"\0" * 1_500_000)
    written, error = _fill(store)
    assert (error.code, type(error)) == ("database-failed", UnavailableError)
    assert accounts(store) == written
    check(store)
    ballast.unlink()
    store.writer.write(born(store, "after")[0])
    store.close()
    with contextlib.closing(Store(sqlite_url(small_disk), clock)) as again:
        assert accounts(again) == {*written, "after"}
        assert check(again) == len(written) + 1

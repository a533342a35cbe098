"""Databases of a test's own, by address: the tests open as many stores on one as they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.stores import Clock

Open = Callable[[], Store]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return str(request.getfixturevalue("postgresql_database"))


@pytest.fixture
def open_store(url: str, clock: Clock) -> Iterator[Open]:
    """Opens stores on the database, without starting their writers; closes them at the end."""
    opened: list[Store] = []

    def open_one() -> Store:
        opened.append(Store(url, clock))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()

"""The console over a store of its own: one house for all tests of a file, which differ in who looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.console import ConsoleHouse
from tests.support.console_floor import Floor
from tests.support.stores import Clock


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleHouse]:
    store = Store(sqlite_url(tmp_path_factory.mktemp("console")), Clock())
    store.start()
    made = ConsoleHouse(store)
    yield made
    made.close()
    store.close()


@pytest.fixture(scope="module")
def floor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Floor]:
    """The console over a control plane with devices and workloads."""
    made = Floor(tmp_path_factory.mktemp("floor"))
    try:
        yield made.fill()
    finally:
        made.close()

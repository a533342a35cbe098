"""The console over a store of its own: one house for all tests of a file, which differ in who looks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.model.ids import render
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.console import ConsoleHouse, Pages
from tests.support.console_floor import Floor
from tests.support.house import House
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


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pages]:
    """One control plane for the tests of a file, which leave nothing behind that runs."""
    folder = tmp_path_factory.mktemp("pages")
    made = Pages(House(sqlite_url(folder), folder))
    yield made
    made.close()


@pytest.fixture
def pages(shared: Pages) -> Iterator[Pages]:
    """The same, and what a test leaves behind is ended."""
    yield shared
    shared.house.tick()
    for workload in list(shared.house.live):
        shared.house.cancel(render("workload", workload))
    shared.house.run_dry()

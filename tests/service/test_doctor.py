"""The doctor looks at the machine, not at what the house makes of it."""

from __future__ import annotations

from pathlib import Path

from steelyard.identity.actor import SYSTEM
from steelyard.model.units import HOUR
from steelyard.services.doctor import examine
from steelyard.services.setup import first_start
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from tests.support.stores import Clock


def test_a_machine_clock_that_was_set_back_is_found_although_the_books_go_on(tmp_path: Path) -> None:
    steady, wall = Clock(), Clock()
    store = Store(sqlite_url(tmp_path), steady, wall=wall)
    store.start()
    first_start(store)

    def clock() -> tuple[bool | None, str]:
        (found,) = [check for check in examine(store, SYSTEM, {}, tmp_path) if check.id == "clock"]
        return found.ok, found.code

    assert clock() == (True, "clock-agrees")
    wall.forward(-HOUR)
    steady.forward(1)
    assert clock() == (False, "clock-behind-log")
    store.close()

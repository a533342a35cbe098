"""The doctor looks at the machine, not at what the house makes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.evidence.keys import Ed25519Signer
from steelyard.identity.actor import SYSTEM
from steelyard.model.units import HOUR
from steelyard.services.doctor import examine
from steelyard.services.keys import LogSigner
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


@pytest.mark.parametrize(("able", "ok"), [(True, True), (False, False), (None, False)])
def test_an_embedded_server_without_the_log_s_key_is_told_so(
    tmp_path: Path, able: bool | None, ok: bool
) -> None:
    store = Store(sqlite_url(tmp_path), Clock())
    store.start()
    signer = None if able is None else LogSigner("log", Ed25519Signer.generate("log") if able else None)
    (found,) = [check for check in examine(store, SYSTEM, {}, tmp_path, signer) if check.id == "key"]
    assert found.ok is ok
    store.close()

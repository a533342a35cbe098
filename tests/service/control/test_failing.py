"""A loop that fails goes on, and does not fail as fast as it can."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from pathlib import Path

import pytest

from steelyard.control.loop import FAILED_WAIT, ControlLoop
from steelyard.model.errors import UnavailableError
from steelyard.store.database import sqlite_url
from tests.support.house import House


@pytest.mark.parametrize("error", [UnavailableError("database-failed", detail="x"), KeyError("x")])
def test_ticks_that_fail_in_a_row_pause_and_the_first_good_one_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    loop = ControlLoop(house.store, house._engine, lambda _reason: None, "sv_b", inline=True)
    at: list[float] = []
    well = threading.Event()

    def tick() -> bool:
        at.append(time.monotonic())
        loop._wake.set()  # something happens all the time
        if len(at) < 5:
            raise error
        well.set()
        return False

    monkeypatch.setattr(loop, "tick", tick)
    loop.start()
    assert well.wait(10)
    loop.close()
    # the first failure is tried again at once
    pauses = [later - earlier for earlier, later in pairwise(at[:5])]
    assert all(pause >= FAILED_WAIT * (4 << n) for n, pause in enumerate(pauses[1:]))
    assert loop.last_error is None
    house.close()

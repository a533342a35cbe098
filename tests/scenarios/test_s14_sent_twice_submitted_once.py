"""S-14: over restarts of the control plane in the midst of its starts, each workload is started once.

That a request sent again under its key submits nothing twice is shown where the API is (docs/scenarios.csv).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text

from steelyard.store.database import sqlite_url
from tests.support.house import House


@pytest.mark.requirement("C10")
def test_each_is_started_once_although_the_control_plane_restarts_at_every_tick(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    try:
        sent = [house.submit(f"w{n}", count=2, expect={"run": "300ms"}) for n in range(6)]
        for _ in range(30):
            house.restart()
            house.tick(2)
        house.run_until(lambda: all(house.phase(one) == "finished" for one in sent))
        with house.store.read() as view:
            assert view.execute(text("SELECT count(*) FROM attempt")).scalar_one() == 6
            assert view.execute(text("SELECT count(*) FROM member")).scalar_one() == 12
            assert view.execute(text("SELECT count(*) FROM receipt")).scalar_one() == 6
        assert len(house.engines["sim"].observe(None).members) <= 12
    finally:
        house.close()

"""S-35: an observation that changes nothing wakes nobody: no cycle, no reason made anew."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import text

from steelyard.store.database import sqlite_url
from tests.support.house import House

WHOLE = {"gpu": 4, "cpu": "1", "memory": "1Gi"}


def test_heartbeats_of_full_nodes_look_at_nobody_again(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    try:
        runs = [house.submit(f"r{n}", requests=WHOLE, expect={"run": "600s"}) for n in range(2)]
        house.run_until(lambda: all(house.phase(one) == "running" for one in runs))
        waits = house.submit("waits", requests=WHOLE)
        house.tick(300)  # it is looked at, told why, and its reasons settle
        assert house.phase(waits) == "queued"
        assert house.loop.desk is not None
        state, looked = house.loop.desk.context.state, house.loop.desk.context.state.last_looked
        before, seen = dict(looked), {name: view.observed_at for name, view in state.clusters.items()}
        nodes, cycles = state.snapshot().nodes, _cycles(house)
        house.tick(200)
        assert all(state.clusters[name].observed_at != at for name, at in seen.items())  # they were observed
        assert state.snapshot().nodes is nodes  # and nothing on them is new
        assert _cycles(house) == cycles
        assert looked == before
    finally:
        house.close()


def _cycles(house: House) -> int:
    with house.store.read() as view:
        return int(view.execute(text("SELECT count(*) FROM cycle")).scalar_one())

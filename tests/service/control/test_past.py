"""What was used lately, over the life of a control plane: sampled, kept, and made anew for the past."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import select

from steelyard.model.units import MINUTE, SECOND
from steelyard.scheduling.history import UNIT
from steelyard.services.live_load import load_state
from steelyard.services.use_history import read_body
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.versioned import older
from tests.service.control.test_replay import replay_all
from tests.support.house import DOCUMENTS, House
from tests.support.storms import Storm

POLICY = """
---
kind: SchedulingPolicy
metadata: {name: default}
spec: {order: FairShare, fairness: {halfLife: %s, sampling: %s}}
"""


def house(url: str, folder: Path, half_life: str = "1h", sampling: str = "1m") -> House:
    """With a past that counts."""
    return House(url, folder, DOCUMENTS + POLICY % (half_life, sampling))


@pytest.fixture
def lived(tmp_path: Path) -> Iterator[House]:
    """A house with a half-life of an hour."""
    made = house(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def sums(house: House) -> list[tuple[int, dict]]:
    """All that were taken."""
    with house.store.read() as view:
        rows = view.execute(select(t.use_history).order_by(t.use_history.c.at)).all()
    return [(row.at, read_body(row.body_json)) for row in rows]


def test_sums_stand_on_the_grid_and_are_of_what_was_really_held(lived: House) -> None:
    lived.submit("long", requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "2h"})
    for _ in range(4):
        lived.clock.advance(MINUTE)
        lived.loop.tick()
    taken = sums(lived)
    assert len(taken) >= 4
    assert all(at % MINUTE == 0 for at, _ in taken)
    key = next(key for key in taken[-1][1] if key[3] == "gpu")
    assert key[:3] == ("main", "detect", "admin")
    before, after = taken[-2][1][key], taken[-1][1][key]
    kept = 0.5 ** (1 / 60)
    assert abs(after - (before * kept + 2000 * UNIT * (1 - kept))) <= 2000 * UNIT // 10**4


def test_what_starts_between_two_sums_counts_at_once(lived: House) -> None:
    lived.clock.advance(MINUTE)
    lived.loop.tick()
    assert not lived.loop.desk.context.state.history.started  # type: ignore[union-attr]
    short = lived.submit("short")
    lived.run_until(lambda: lived.phase(short) == "running")
    history = lived.loop.desk.context.state.history  # type: ignore[union-attr]
    assert history.started["main", "detect", "admin", "gpu"] == 1000


def test_a_new_life_of_the_loop_knows_the_same(lived: House) -> None:
    for number in range(5):
        lived.submit(f"w{number}", expect={"run": f"{number}m"})
        lived.clock.advance(40 * SECOND)
        lived.loop.tick()
        lived.loop.tick()
    remembered = lived.loop.desk.context.state.history  # type: ignore[union-attr]
    with lived.store.read() as view:
        assert load_state(view).history == remembered


def test_old_sums_go_but_for_the_one_on_which_the_kept_cycles_rest(lived: House) -> None:
    lived.submit("long", expect={"run": "2h"})
    for _ in range(4):
        lived.clock.advance(MINUTE)
        lived.loop.tick()
    taken = [at for at, _ in sums(lived)]
    with lived.store.read() as view:
        old = older(view, t.use_history, taken[-2] + 1, 100)
    assert [row["at"] for row in old] == taken[:-2]


@pytest.mark.parametrize("seed", range(2))
def test_every_cycle_is_decided_the_same_again(tmp_path: Path, seed: int) -> None:
    made = house(sqlite_url(tmp_path), tmp_path, "10s", "300ms")
    try:
        Storm(made, seed).run(60)
        assert replay_all(made)["placements"] > 3
        assert len(sums(made)) > 3
    finally:
        made.close()


def test_on_postgresql_too(postgresql_database: str, tmp_path: Path) -> None:
    made = house(postgresql_database, tmp_path, "10s", "300ms")
    try:
        Storm(made, 3).run(40)
        assert replay_all(made)["placements"] > 3
        assert len(sums(made)) > 3
    finally:
        made.close()

"""Every stored cycle decides the same again, from the log and the intervals alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from steelyard.engines.port import Engine
from steelyard.model.errors import SteelyardError
from steelyard.services.cycles import STORED, replay_cycle
from steelyard.services.live_load import SnapshotSource
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House
from tests.support.storms import RESTLESS, Storm


class Interrupted:
    """An engine during whose observation something else happens: between the loop's reading and deciding."""

    def __init__(self, engine: Engine, happen: Callable[[], None]) -> None:
        self._engine = engine
        self._happen = happen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def observe(self, cursor: str | None) -> Any:
        """As the engine does."""
        self._happen()
        return self._engine.observe(cursor)


@contextmanager
def house(url: str, folder: Path, **options: Any) -> Iterator[House]:
    """A house that is closed in the end."""
    made = House(url, folder, **options)
    try:
        yield made
    finally:
        made.close()


def replay_all(house: House) -> dict[str, int]:
    """Replay every stored cycle; how many decided what."""
    with house.store.read() as view:
        rows = view.execute(select(t.cycle.c.id, t.cycle.c.decisions_json).order_by(t.cycle.c.id)).all()
    found = dict.fromkeys(STORED, 0)
    for row in rows:
        answer = replay_cycle(house.store, ADMIN, SnapshotSource(), row.id)
        assert answer["same"], (row.id, answer["differences"][:3], row.decisions_json[:2000])
        for name, entries in msgspec.json.decode(row.decisions_json).items():
            found[name] = found.get(name, 0) + bool(entries)
    return found


@pytest.mark.requirement("A1")
@pytest.mark.parametrize("seed", range(6))
def test_after_a_random_life_every_cycle_replays_the_same(tmp_path: Path, seed: int) -> None:
    with house(sqlite_url(tmp_path), tmp_path) as lived:
        if seed % 2:
            lived.apply(RESTLESS)
        Storm(lived, seed).run(60)
        found = replay_all(lived)
        assert found["placements"] > 3


def test_on_postgresql_too(postgresql_database: str, tmp_path: Path) -> None:
    with house(postgresql_database, tmp_path) as lived:
        Storm(lived, 11).run(50)
        assert replay_all(lived)["placements"] > 3


@pytest.mark.parametrize("seed", range(100, 104))
def test_what_happens_between_reading_and_deciding_is_not_known_to_the_cycle(
    tmp_path: Path, seed: int
) -> None:
    storms: list[Storm] = []

    def happen() -> None:
        storm = storms[0] if storms else None
        if storm is not None and storm.dice.random() < 0.5:
            acts = [storm.submit, storm.submit_high, storm.cancel, storm.limits, storm.retry]
            with suppress(SteelyardError):
                storm.dice.choice(acts)()

    with house(sqlite_url(tmp_path), tmp_path, wrap=lambda engine: Interrupted(engine, happen)) as lived:
        storm = Storm(lived, seed)
        storms.append(storm)
        for _ in range(40):
            storm.tick()
        storms.clear()
        storm.run(5)
        assert replay_all(lived)["placements"] > 3

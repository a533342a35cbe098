"""S-12: what is turned away, at submit or by the engine, keeps no quota."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.errors import RefusedError
from steelyard.store.database import sqlite_url
from steelyard.store.declared import usage_counters
from tests.support.house import DOCUMENTS, House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def charged(house: House) -> dict[tuple[str, str, str], int]:
    with house.store.read() as view:
        return {key: used for key, used in usage_counters(view).items() if used}


def test_a_request_that_is_refused_is_charged_nowhere(house: House) -> None:
    """The project may have two, and is refused what is more."""
    runs = house.submit("runs", namespace="translate-dev", expect={"run": "600s"})
    house.run_until(lambda: house.phase(runs) == "running")
    before = charged(house)
    for _ in range(3):
        with pytest.raises(RefusedError):
            house.submit("too-much", namespace="translate-dev", count=2)
        house.tick(3)
    assert charged(house) == before


def test_what_the_engine_can_not_start_gives_its_quota_back(house: House) -> None:
    cluster = DOCUMENTS.split("---")[0].rstrip()
    house.apply(cluster + "\n    suffer: [{fault: start-failure, match: {name: unlucky}}]\n")
    unlucky = house.submit("unlucky", restart="never")
    house.run_until(lambda: house.phase(unlucky) == "finished")
    house.tick(10)
    assert charged(house) == {}

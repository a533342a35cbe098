"""The log of a failed member is read with its release probe, and its end does not wait for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.engines.port import Engine, EngineUnavailable, LogChunk
from steelyard.store.database import sqlite_url
from tests.support.house import DOCUMENTS, House

ONE = {"gpu": 1, "cpu": "1", "memory": "1Gi"}
TIMING = "release: 10ms}\n"
STICKY = "    suffer:\n    - {fault: stuck-release, match: {name: sticky}, for: 5s}\n"


class Talking:
    """An engine whose members have logs that a test gives; it counts how often it was asked for one."""

    def __init__(self, inner: Engine, said: bytes | Exception) -> None:
        self._inner, self._said, self.asked = inner, said, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def logs(self, member_id: str, offset: int, limit: int) -> LogChunk:
        """The end of the log, as every reader of an end asks for it."""
        self.asked += 1
        if isinstance(self._said, Exception):
            raise self._said
        data = self._said[offset:][:limit] if offset < 0 else self._said[offset : offset + limit]
        return LogChunk(data, len(self._said), True)


MakeHouse = Callable[[bytes | Exception], House]


@pytest.fixture
def make_house(tmp_path: Path) -> Iterator[MakeHouse]:
    """A house whose members say what is given."""
    made: list[House] = []

    def make(said: bytes | Exception) -> House:
        text = DOCUMENTS.replace(TIMING, TIMING + STICKY, 1)
        wrap: Any = lambda engine: Talking(engine, said)  # noqa: E731
        made.append(House(sqlite_url(tmp_path), tmp_path, text, wrap=wrap))
        return made[-1]

    yield make
    for house in made:
        house.close()


def fail(house: House, name: str = "own", **expect: str) -> str:
    return house.submit(name, requests=ONE, restart="never", expect={"run": "1s", "exit": "1"} | expect)


@pytest.mark.requirement("F12")
def test_the_verdict_points_at_the_line_by_its_place_in_the_whole_log(make_house: MakeHouse) -> None:
    house = make_house(b"x" * 100_000 + b"\nMemoryError\nbye\n")
    workload = fail(house)
    house.run_dry()
    verdict = house.show(workload)["verdict"]
    assert (verdict["code"], verdict["evidence"][0]["offset"]) == ("out-of-memory", 100_001)


def test_a_log_that_can_not_be_read_leaves_the_verdict_to_the_counters(make_house: MakeHouse) -> None:
    house = make_house(EngineUnavailable("cluster-unreachable", cluster="sim"))
    workload = fail(house)
    house.run_dry()
    page = house.show(workload)
    assert (page["verdict"]["code"], page["verdict"]["evidence"][1]["value"]) == ("exit-code", "not-read")
    assert page["attempts"][0]["receipt"]["state"] == "confirmed"


def test_the_log_is_read_again_after_a_restart_between_end_and_release(make_house: MakeHouse) -> None:
    house = make_house(b"MemoryError\n")
    workload = fail(house, "sticky")
    house.run_until(lambda: house.phase(workload) == "releasing")
    house.restart()
    house.run_dry()
    assert house.show(workload)["verdict"]["code"] == "out-of-memory"


def test_no_log_is_read_of_what_succeeded_or_was_stopped(make_house: MakeHouse) -> None:
    house = make_house(b"MemoryError\n")
    fail(house, "fine", exit="0")
    stopped = fail(house, "stopped", run="forever")
    house.run_until(lambda: house.phase(stopped) == "running")
    house.cancel(stopped)
    house.run_dry()
    engine: Any = house.engines["sim"]
    assert engine.asked == 0

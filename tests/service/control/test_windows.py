"""Windows of the past: decided again as they were, and run under other documents."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import select

from steelyard.model.errors import ForbiddenError, InvalidError
from steelyard.model.units import SECOND
from steelyard.services.live_load import SnapshotSource
from steelyard.services.policy_preview import policy_preview
from steelyard.services.replays import replay_window
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House
from tests.support.storms import Storm
from tests.support.worlds import ANN

SOURCE = SnapshotSource()
QUEUE = """
kind: Queue
metadata: {{name: main}}
spec: {{cohort: all, owner: platform, limits: [{{class: gpu, nominal: "{gpu}", borrowingLimit: 0}}]}}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """Three workloads of four devices ran on eight; nobody changes anything any more."""
    folder = tmp_path_factory.mktemp("past")
    made = House(sqlite_url(folder), folder)
    for name in ("one", "two", "three"):
        made.submit(name, requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "4s"})
        made.tick(3, step=100_000)
    made.run_dry()
    yield made
    made.close()


def queue(gpu: int) -> list[Any]:
    """Documents of a queue that has so many devices."""
    return list(yaml.safe_load_all(QUEUE.format(gpu=gpu)))


def execute(house: House, statement: str, *values: Any) -> None:
    """Behind the store's back."""
    with sqlite3.connect(house.folder / "steelyard.db") as connection:
        connection.execute(statement, values)


def whole(house: House, limit: int = 7) -> list[dict[str, Any]]:
    """All answers of a replay, step by step."""
    answers, cursor = [], None
    while True:
        found = replay_window(house.store, ADMIN, SOURCE, cursor=cursor, limit=limit)
        answers.append(found)
        cursor = found["next_cursor"]
        if cursor is None:
            return answers


def test_every_cycle_of_a_window_is_decided_again_step_by_step(house: House) -> None:
    Storm(house, 5).run(15)
    answers = whole(house, 3)
    with house.store.read() as view:
        ids = view.execute(select(t.cycle.c.id)).scalars().all()
    assert len(answers) > 2
    assert sum(found["checked"] for found in answers) == len(ids) == answers[0]["total"]
    assert sum(found["same"] for found in answers) == len(ids)
    assert all(found["first"] is None for found in answers)


def test_the_first_cycle_that_differs_is_shown(house: House) -> None:
    house.submit("a")
    house.run_dry()
    house.submit("b")
    house.run_dry()
    with house.store.read() as view:
        rows = view.execute(select(t.cycle.c.id, t.cycle.c.decisions_json).order_by(t.cycle.c.id)).all()
    forged = next(row for row in rows if '"placements":[{' in row.decisions_json)
    emptied = '{"dropped_holds":[],"evictions":[],"holds":[],"placements":[],"refusals":[]}'
    execute(house, "UPDATE cycle SET decisions_json = ? WHERE id = ?", emptied, forged.id)
    (found,) = whole(house, 200)
    assert (found["different"], found["first"]["count"]) == (1, 1)
    assert found["first"]["differences"][0]["stored"] is None


def test_cycles_that_are_no_longer_kept_are_told(house: House) -> None:
    house.submit("a", requests={"cpu": "1", "memory": "1Gi", "gpu": 4})
    house.run_dry()
    house.submit("b")
    house.run_dry()
    (before,) = whole(house, 200)
    with house.store.read() as view:
        instants = view.execute(select(t.cycle.c.at).order_by(t.cycle.c.at)).scalars().all()
    execute(house, "DELETE FROM cycle WHERE at < ?", instants[1])
    execute(house, "INSERT INTO setting (name, value) VALUES ('purged-cycles', ?)", str(instants[1]))
    (found,) = whole(house, 200)
    assert (found["kept_since"], found["total"]) == (instants[1], before["total"] - 1)
    assert found["checked"] == found["same"] == found["total"]


def test_a_window_has_only_its_own_cycles(past: House) -> None:
    with past.store.read() as view:
        instants = view.execute(select(t.cycle.c.at).order_by(t.cycle.c.at)).scalars().all()
    before = replay_window(past.store, ADMIN, SOURCE, until=instants[2])
    after = replay_window(past.store, ADMIN, SOURCE, since=instants[2])
    assert (before["total"], after["total"]) == (2, len(instants) - 2)


def test_only_who_sees_the_whole_installation_asks_about_the_past(past: House) -> None:
    with pytest.raises(ForbiddenError):
        replay_window(past.store, ANN, SOURCE)
    with pytest.raises(ForbiddenError):
        policy_preview(past.store, ANN, SOURCE, queue(1))


# --- previews --------------------------------------------------------------------------------------------
def test_the_same_documents_start_everybody_as_it_was(past: House) -> None:
    found = policy_preview(past.store, ADMIN, SOURCE, queue(8))
    assert found["old"] == found["new"]
    assert [found[key]["count"] for key in ("earlier", "later", "no_longer", "only_new")] == [0, 0, 0, 0]
    assert found["reproduced"] == {"starts": 3, "same": 3}
    assert found["complete"]


def test_a_smaller_quota_lets_who_waits_wait_longer(past: House) -> None:
    found = policy_preview(past.store, ADMIN, SOURCE, queue(4))
    later = {row["name"]: row for row in found["later"]["items"]}
    assert later["two"]["new"] - later["two"]["old"] >= 3 * SECOND
    assert [row["name"] for row in found["no_longer"]["items"]] == ["three"]  # not before the window ends
    assert found["new"]["mean_wait"] > found["old"]["mean_wait"]


def test_what_could_never_start_under_them_would_have_been_refused(past: House) -> None:
    found = policy_preview(past.store, ADMIN, SOURCE, queue(2))
    assert [row["name"] for row in found["refusals"]["items"]] == ["two", "three"]  # the first waited already
    assert found["refusals"]["items"][0]["reasons"]
    assert found["no_longer"]["count"] == 3


@pytest.mark.requirement("J9")
def test_what_runs_above_the_new_limits_is_told(house: House) -> None:
    house.submit("one", requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "60s"})
    house.tick(20, step=100_000)
    since = house.clock()
    house.submit("two")
    house.tick(20, step=100_000)
    found = policy_preview(house.store, ADMIN, SOURCE, queue(2), since=since)
    (over,) = [row for row in found["over_quota"] if row["node"] == "main"]
    assert (over["subject"], over["used"], over["limit"], over["over"]) == ("gpu", 4000, 2000, 2000)


def test_a_preview_writes_nothing_and_a_random_life_is_met_by_its_own_simulation(house: House) -> None:
    Storm(house, 3).run(15)
    with house.store.read() as view:
        size = view.execute(select(t.leaf.c.seq).order_by(t.leaf.c.seq.desc()).limit(1)).scalar()
    found = policy_preview(house.store, ADMIN, SOURCE, queue(8))
    with house.store.read() as view:
        assert size == view.execute(select(t.leaf.c.seq).order_by(t.leaf.c.seq.desc()).limit(1)).scalar()
    assert found["complete"]
    assert found["workloads"] > 5
    assert found["reproduced"]["starts"] > 5


def test_documents_that_no_decision_follows_are_not_taken(past: House) -> None:
    with pytest.raises(InvalidError, match="what-if-kind"):
        policy_preview(past.store, ADMIN, SOURCE, list(yaml.safe_load_all(
            "kind: Template\nmetadata: {name: t}\nspec: {version: '1', spec: {}}"
        )))  # fmt: skip


def test_a_window_without_cycles_is_none(past: House) -> None:
    with pytest.raises(InvalidError, match="window-no-cycles"):
        policy_preview(past.store, ADMIN, SOURCE, queue(8), until=1)

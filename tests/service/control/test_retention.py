"""What is older than its declared time goes, a leaf says so, and nothing else breaks of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import func, select

from steelyard.control.retain import Retainer
from steelyard.model.errors import InvalidError, NotFoundError, RefusedError
from steelyard.model.ids import parse
from steelyard.model.organisation import Scope
from steelyard.model.units import DAY, HOUR
from steelyard.services import refusals, retention
from steelyard.services.cycles import cycle_page, replay
from steelyard.services.live_load import SnapshotSource
from steelyard.services.retention import Retention, read_retention
from steelyard.services.sessions import create_token, revoke_token
from steelyard.services.setup import first_start
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url
from steelyard.store.leaves import leaf_body
from tests.support.house import ADMIN, House


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A control plane whose books are checked at the end."""
    on_sqlite = request.param == "sqlite"
    url = sqlite_url(tmp_path) if on_sqlite else request.getfixturevalue("postgresql_database")
    made = House(url, tmp_path)
    yield made
    made.close()


def count(house: House, table: object) -> int:
    with house.store.read() as view:
        return int(view.execute(select(func.count()).select_from(table)).scalar_one())  # type: ignore[arg-type]


def purge(house: House, **kept: int | None) -> dict[str, dict[str, int]]:
    """One turn of the loop; what its leaf says."""
    assert house.loop.desk is not None
    retainer = Retainer(house.loop.desk.context, Retention(**kept))
    retainer._at = 0.0
    before = house.store.writer.state.size
    retainer.run()
    with house.store.read() as view:
        body = leaf_body(view, before)
    if body is None:
        return {}
    found: dict[str, dict[str, int]] = retention_detail(body)
    return found


def retention_detail(body: bytes) -> dict[str, dict[str, int]]:
    leaf = json.loads(body)
    assert leaf["action"] == retention.ACTION_PURGED
    found: dict[str, dict[str, int]] = leaf["detail"]["purged"]
    return found


def test_old_cycles_go_but_for_the_newest_and_are_said_to_be_purged(house: House) -> None:
    for number in range(4):
        house.submit(f"w{number}", expect={"run": "20ms"})
        house.run_dry()
    with house.store.read() as view:
        ids = list(view.execute(select(t.cycle.c.id).order_by(t.cycle.c.id)).scalars())
    house.clock.advance(3 * DAY)
    house.tick(3)
    said = purge(house, cycles=DAY)
    assert said["cycles"]["count"] == len(ids) - 1
    assert count(house, t.cycle) >= 1
    with house.store.read() as view:
        page = cycle_page(view, Scope.system(), ids[0])
        again = replay(view, Scope.system(), SnapshotSource(), ids[0])
        with pytest.raises(NotFoundError):
            cycle_page(view, Scope.system(), parse("cycle", "cy_0000000000000"))
    assert (page["purged"], page["decisions"]) == (True, None)
    assert (again["same"], again["purged"]) == (None, True)
    house.submit("after", expect={"run": "20ms"})
    house.run_dry()
    assert purge(house, cycles=DAY)["cycles"]["count"] == 1  # the newest then, which is no more


def test_cycles_that_stay_replay_as_before(house: House) -> None:
    house.submit("old", expect={"run": "20ms"})
    house.run_dry()
    house.clock.advance(3 * DAY)
    house.submit("new", expect={"run": "20ms"})
    house.run_dry()
    purge(house, cycles=DAY)
    with house.store.read() as view:
        rows = view.execute(select(t.cycle.c.id).where(t.cycle.c.at > house.clock.at - HOUR)).scalars()
        found = [replay(view, Scope.system(), SnapshotSource(), number) for number in rows]
    assert found
    assert all(each["same"] for each in found)


def test_a_refusal_keeps_its_record_and_loses_what_was_asked(house: House) -> None:
    with pytest.raises(RefusedError):
        house.submit("much", namespace="translate-dev", requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    house.clock.advance(3 * DAY)
    house.tick(3)
    with house.store.read() as view:
        (before,), _ = refusals.list_refusals(view, Scope.system())
    said = purge(house, refusals=DAY)
    with house.store.read() as view:
        (after,), _ = refusals.list_refusals(view, Scope.system())
    assert said["refusals"]["count"] == 1
    assert (after["purged"], after["asked"], after["reasons"]) == (True, None, before["reasons"][:1])
    assert {name: after[name] for name in ("id", "at", "project", "request_digest", "verdict")} == {
        name: before[name] for name in ("id", "at", "project", "request_digest", "verdict")
    }
    assert purge(house, refusals=DAY) == {}


def test_ended_credentials_and_old_answers_go(house: House) -> None:
    first_start(house.store)
    ended, kept = create_token(house.store, ADMIN, "ended"), create_token(house.store, ADMIN, "kept")
    revoke_token(house.store, ADMIN, ended.id)
    with house.store.engine.begin() as connection:
        connection.execute(
            t.idempotency.insert().values(
                principal="x", key="k", request_digest="d", status=200, response_json="{}", at=house.clock.at
            )
        )
    assert purge(house) == {}
    house.clock.advance(100 * DAY)
    house.tick(3)
    said = purge(house)
    assert {name: said[name]["count"] for name in ("credentials", "idempotency")} == {
        "credentials": 1, "idempotency": 1,
    }  # fmt: skip
    with house.store.read() as view:
        assert list(view.execute(select(t.credential.c.id)).scalars()) == [kept.id]


def test_much_goes_in_several_turns(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "MOST_AT_ONCE", 2)
    for number in range(5):
        house.submit(f"w{number}", expect={"run": "20ms"})
        house.run_dry()
    all_cycles = count(house, t.cycle)
    house.clock.advance(3 * DAY)
    house.tick(3)
    turns = []
    while said := purge(house, cycles=DAY):
        turns.append(said["cycles"]["count"])
    assert sum(turns) == all_cycles - 1
    assert max(turns) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Retention()),
        ("url = 'x'\n[retention]\ncycles = '30d'\nrefusals = '9d'", Retention(30 * DAY, refusals=9 * DAY)),
        ("[retention]\ncredentials = 'never'", Retention(credentials=None)),
    ],
)
def test_the_configuration_says_how_long(tmp_path: Path, text: str, expected: Retention) -> None:
    assert read_retention(tmp_path) == Retention()
    (tmp_path / "config.toml").write_text(text)
    assert read_retention(tmp_path) == expected


@pytest.mark.parametrize(
    "text", ["[retention]\ncycle = '1d'", "[retention]\ncycles = 'soon'", "retention = 3", "["]
)
def test_a_wrong_configuration_is_said(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(InvalidError, match="config-invalid"):
        read_retention(tmp_path)

"""What the loop keeps in memory is what the store would give it afresh, after every tick of a random life."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError

from steelyard.model.errors import SteelyardError
from steelyard.model.lifecycle import HOLDING_PHASES
from steelyard.scheduling import Snapshot, total_usage
from steelyard.services.live_load import load_state
from steelyard.store import live as rows
from steelyard.store.database import sqlite_url
from tests.support.house import House
from tests.support.storms import Storm


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A house on either database."""
    url = sqlite_url(tmp_path)
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgresql_database"))
    made = House(url, tmp_path)
    yield made
    made.close()


def normal(snapshot: Snapshot) -> dict[str, Any]:
    """What decisions rest on; without how lately clusters were seen and shapes looked at, which only memory
    knows exactly."""
    return {
        "nodes": snapshot.nodes,
        "flavors": snapshot.flavors,
        "clusters": {name: replace(view, observed_at=0) for name, view in snapshot.clusters.items()},
        "trees": {name: (tree.nodes, tree.limits) for name, tree in snapshot.trees.items()},
        "usage": {
            name: {key: used for key, used in usage.items() if used} for name, usage in snapshot.usage.items()
        },
        "pending": {group.shape.key: group for group in snapshot.pending},
        "running": snapshot.running,
        "holds": snapshot.holds,
    }


def compare(house: House) -> None:
    """Memory against the store."""
    desk = house.loop.desk
    if desk is None:
        return
    with house.store.read() as view:
        fresh = load_state(view)
        counters = rows.usage_counters(view)
    state = desk.context.state
    kept, anew = normal(state.snapshot()), normal(fresh.snapshot())
    for name, value in anew.items():
        assert kept[name] == value, name
    charged = [
        item
        for attempt in state.attempts.values()
        if attempt.phase in HOLDING_PHASES
        for item in attempt.charges
    ] + [item for hold in state.holds.values() for item in hold.charges]
    for name, tree in state.trees.items():
        own = [(item.node, item.subject, item.quantity) for item in charged if item.tree == name]
        total = {key: used for key, used in total_usage(tree, own).items() if used}
        assert counters.get(name, {}) == total, f"{name}: charged is not what is live"


@pytest.mark.parametrize("seed", range(4))
def test_memory_is_what_the_store_gives_after_every_tick(house: House, seed: int) -> None:
    Storm(house, seed + 50, lambda: compare(house)).run(60)


@pytest.mark.parametrize("seed", range(3))
def test_commits_that_fail_at_any_statement_harm_nothing_that_follows(house: House, seed: int) -> None:
    dice = random.Random(seed)

    def fail_sometimes(connection: Any, *_rest: object) -> None:
        if connection.get_execution_options().get("writing") and dice.random() < 0.01:
            raise OperationalError("COMMIT", {}, RuntimeError("the connection was lost"))

    storm = Storm(house, seed + 80, lambda: compare(house))
    event.listen(house.store.engine, "before_cursor_execute", fail_sometimes)
    event.listen(house.store.engine, "commit", fail_sometimes)
    for _ in range(40):
        with suppress(SteelyardError):
            dice.choice(storm.steps)()
        storm.tick()
    event.remove(house.store.engine, "before_cursor_execute", fail_sometimes)
    event.remove(house.store.engine, "commit", fail_sometimes)
    storm.run(5)


def test_nothing_is_charged_when_nothing_is_live(house: House) -> None:
    Storm(house, 7).run(30)
    with house.store.read() as view:
        assert rows.usage_counters(view) == {}


def test_the_flavors_are_the_same_object_until_one_of_them_changes(house: House) -> None:
    house.tick()
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    before = state.flavors()
    device = next(device for device in state.devices.values() if device.flavor in before)
    state.touch_node(device.node_id)
    assert state.flavors() is before
    for other in state.devices.values():
        if other.flavor == device.flavor:
            other.model = "another"
    state.touch_node(device.node_id)
    assert state.flavors()[device.flavor or ""].model == "another"
    house.tampered = True  # nobody wrote that down

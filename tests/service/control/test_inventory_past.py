"""The inventory of any past instant is what was seen live then; the difference of two instants says why."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import ConflictError, InvalidError, SteelyardError
from steelyard.model.health import DeviceHolder, Health
from steelyard.model.resources import Fact, FoundDevice, FoundNode, Provenance, RegistrationOutcome
from steelyard.services.flags import Act, act
from steelyard.services.inventory import nodes_page, summary_page
from steelyard.services.inventory_diff import difference
from steelyard.services.inventory_past import nodes_at, summary_at
from steelyard.services.live_load import load_state
from steelyard.services.registrations import list_registrations
from steelyard.services.retire import retire
from steelyard.store.database import sqlite_url
from tests.service.control.test_conditions import parts
from tests.support.house import ADMIN, House
from tests.support.shown import Shown, gone, held_by, ill, look, shown

SAME = ("availability", "reason", "text", "capacity", "has_children", "condition", "unowned", "model")
UIDS = [f"n-{n}/gpu-{d}" for n in range(2) for d in range(4)]


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.soak)])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    url = sqlite_url(tmp_path)
    if request.param == "postgresql":
        url = str(request.getfixturevalue("postgresql_database"))
    made = House(url, tmp_path, wrap=Shown)
    made.tick(3)
    try:
        yield made
    finally:
        made.close()


def live(house: House) -> tuple[list[Any], list[Any]]:
    options: dict[str, Any] = {"cluster": None, "device_class": None, "pool": None, "cursor": None}
    nodes, _ = nodes_page(house.store, ADMIN, limit=50, **options)
    return [{**node, "observed_at": None} for node in nodes], summary_page(house.store, ADMIN)["classes"]


def check_memory(house: House) -> None:
    """What the loop keeps of devices is what it would load."""
    assert house.loop.desk is not None
    kept = house.loop.desk.context.state
    with house.store.read() as view:
        stored = load_state(view)
    assert stored.devices.keys() == kept.devices.keys()
    for device in kept.devices.values():
        fresh = stored.devices[device.id]
        for name in SAME:
            assert getattr(fresh, name) == getattr(device, name), (device.uid, name)
        assert fresh.withheld() == device.withheld()
    assert {f.id for flags in stored.flags.values() for f in flags.values()} == {
        f.id for flags in kept.flags.values() for f in flags.values()
    }


class Weather:
    """Things that happen to an inventory, at random."""

    def __init__(self, house: House, seed: int) -> None:
        self.house, self.random = house, random.Random(seed)

    def happen(self) -> None:
        """One of them, and the loop sees it."""
        chance, engine, house = self.random, shown(self.house), self.house
        uid = chance.choice(UIDS)
        what = chance.randrange(12)
        if what == 0:
            engine.devices[uid] = gone
        elif what == 1:
            engine.devices[uid] = ill(chance.choice(list(Health)[1:3]))
        elif what == 2:
            engine.devices[uid] = held_by(DeviceHolder(chance.randrange(99), "x"))
        elif what == 3:
            engine.more["n-0"] = parts("n-0/gpu-0", chance.randrange(3))
        elif what == 4:
            color = chance.choice(["red", "blue"])
            engine.nodes["n-1"] = lambda node: replace(node, labels={"color": color})
        elif what == 5:
            amount = chance.randrange(4) * 1000
            engine.devices["n-0/cpu"] = held_by(DeviceHolder(7, "hog", cpu=amount))
        elif what == 6:
            self.flag(chance.choice([uid, "sim/n-0", "sim/n-1"]))
        elif what == 7:
            engine.devices.clear()
            engine.nodes.clear()
        elif what == 8:
            engine.nodes["n-1"] = lambda _node: None
        elif what == 9:
            engine.away = not engine.away
        elif what == 10:
            house.loop.desk = None  # all that is kept in memory is loaded anew
        else:
            requests = {"cpu": "1", "memory": "1Gi", "gpu": chance.randrange(1, 4)}
            with suppress(SteelyardError):
                house.submit(f"w{house.clock.at}", requests=requests, expect={"run": "300ms"})
        look(house)

    def flag(self, name: str) -> None:
        """Set or lift one."""
        what = self.random.choice([Act.CORDON, Act.MAINTENANCE, Act.UNCORDON])
        with suppress(SteelyardError):
            act(self.house.store, ADMIN, what, name, f"because {self.random.randrange(9)}")


@pytest.mark.requirement("B19", "B9", "B17")
@pytest.mark.parametrize("seed", [1, *(pytest.param(s, marks=pytest.mark.soak) for s in range(2, 12))])
def test_the_inventory_of_a_past_instant_is_what_was_seen_then(house: House, seed: int) -> None:
    weather, seen = Weather(house, seed), []
    for _ in range(24):
        weather.happen()
        house.tick(weather.random.randrange(4))
        check_memory(house)
        seen.append((house.store.now(), *live(house)))
        for found in (d for node in seen[-1][1] for d in node["devices"]):
            assert found["state"] in ("available", "held") or found["reason"], found
            assert found["requestable"] or found["why_not"], found
    for at, nodes, classes in seen:
        found, _ = nodes_at(house.store, ADMIN, at, limit=50)
        for then, now in zip(nodes, found, strict=True):
            assert now == then, at
        assert summary_at(house.store, ADMIN, at)["classes"] == classes
    shown(house).devices.clear()
    shown(house).nodes.clear()
    shown(house).away = False
    look(house)
    for node in ("sim/n-0", "sim/n-1", *UIDS):
        with suppress(SteelyardError):
            act(house.store, ADMIN, Act.UNCORDON, node, "end")
    house.run_dry()


def test_what_has_not_come_yet_is_no_past(house: House) -> None:
    with pytest.raises(InvalidError):
        nodes_at(house.store, ADMIN, house.store.now() + 10**9)
    with pytest.raises(InvalidError):
        difference(house.store, ADMIN, 5, 5)


@pytest.mark.requirement("B7")
def test_the_difference_of_two_instants_says_what_changed_by_whom_and_why(house: House) -> None:
    start = house.store.now()
    engine = shown(house)
    engine.devices["n-0/gpu-1"] = ill(Health.UNHEALTHY)
    engine.devices["n-0/gpu-2"] = held_by(DeviceHolder(4711, "python"))

    def labelled(node: FoundNode) -> FoundNode:
        fact = Fact("550.1", Provenance.DETECTED, "nvidia-smi", 1)
        first = replace(node.devices[2], facts={**node.devices[2].facts, "driver": fact})
        return replace(node, labels={"zone": "b"}, devices=(*node.devices[:2], first, *node.devices[3:]))

    engine.nodes["n-1"] = labelled
    look(house)
    act(house.store, ADMIN, Act.CORDON, "sim/n-1", "new power supply")
    house.tick(2)
    changes = difference(house.store, ADMIN, start, house.store.now())["changes"]
    told = {(c["name"], c["what"], c["key"]): (c["before"], c["after"], c["by"], c["why"]) for c in changes}
    assert told["n-0/gpu-1", "health", None] == ("healthy", "unhealthy", "sim", "vendor-alarm")
    assert told["n-0/gpu-1", "state", None][1] == "unavailable.unplanned: unhealthy"
    assert told["n-0/gpu-2", "processes", None] == (None, "python (4711)", "sim", "engine")
    assert told["n-1", "label", "zone"] == (None, "b", "sim", "engine")
    assert told["n-1/gpu-0", "fact", "driver"] == (None, "550.1", "sim", "nvidia-smi")
    assert told["n-1", "flag", "cordoned"] == (None, "cordoned", ADMIN.id, "new power supply")
    assert told["n-1/gpu-3", "state", None][1] == "unavailable.planned: cordoned"
    assert ("n-0/gpu-3", "state", None) not in told
    later = house.store.now()
    house.tick(3)
    assert difference(house.store, ADMIN, later, house.store.now())["changes"] == []


@pytest.mark.requirement("B6")
def test_what_became_of_every_device_is_listed_with_how_it_was_found(house: House) -> None:
    known = next(d for n in shown(house).inventory() for d in n.devices if d.uid == UIDS[0])
    shown(house).more["n-1"] = (known,)
    look(house)
    rows, following = list_registrations(house.store, ADMIN, limit=5)
    assert (rows[0]["outcome"], rows[0]["reason"], rows[0]["node"]) == ("duplicate", "uid-taken", "n-1")
    assert {(r["outcome"], r["source"], r["provenance"]) for r in rows[1:]} == {
        ("registered", "cluster-document", "simulated")
    }
    every = list(rows)
    while following:
        rows, following = list_registrations(house.store, ADMIN, cursor=following, limit=5)
        every += rows
    assert len({row["id"] for row in every}) == len(every) == 1 + 8 + 6
    only, _ = list_registrations(house.store, ADMIN, outcome=RegistrationOutcome.DUPLICATE)
    assert [row["uid"] for row in only] == [UIDS[0]]


def test_a_missing_device_that_is_given_up_is_counted_no_more_and_keeps_its_past(house: House) -> None:
    uid = "n-0/gpu-1"
    with pytest.raises(ConflictError) as caught:
        retire(house.store, ADMIN, f"sim/{uid}", "sold")
    assert caught.value.code == "device-not-missing"
    act(house.store, ADMIN, Act.CORDON, f"sim/{uid}", "will be taken out")
    shown(house).devices[uid] = gone
    look(house)
    before = house.store.now()
    retire(house.store, ADMIN, f"sim/{uid}", "sold")
    house.tick(2)
    (gpus,) = [c for c in live(house)[1] if (c["class"], c["cluster"]) == ("gpu", "sim")]
    assert (gpus["capacity"], gpus["free"]) == (7000, 7000)
    (then,) = [c for c in summary_at(house.store, ADMIN, before)["classes"] if c["class"] == "gpu"]
    assert (then["capacity"], then["unavailable"]) == (8000, 1000)
    rows, _ = list_registrations(house.store, ADMIN, outcome=RegistrationOutcome.RETIRED)
    assert [(r["uid"], r["reason"], r["by"]) for r in rows] == [(uid, "sold", ADMIN.id)]
    changes = difference(house.store, ADMIN, before)["changes"]
    told = {(c["name"], c["what"]): (c["after"], c["by"], c["why"]) for c in changes}
    assert told[uid, "registration"] == ("retired", ADMIN.id, "sold")
    assert told[uid, "flag"] == (None, ADMIN.id, "sold")
    shown(house).devices.clear()
    look(house)
    (gpus,) = [c for c in live(house)[1] if (c["class"], c["cluster"]) == ("gpu", "sim")]
    assert (gpus["capacity"], gpus["free"]) == (8000, 8000)


def test_what_was_given_up_is_not_taken_in_anew_while_its_engine_still_tells_that_it_is_missing(
    house: House,
) -> None:
    uid = "n-0/gpu-1"

    def missing(found: FoundDevice) -> FoundDevice:
        return replace(found, health=Health.MISSING, facts={})

    shown(house).devices[uid] = missing
    look(house)
    retire(house.store, ADMIN, f"sim/{uid}", "sold")
    house.tick(2)
    look(house)
    (gpus,) = [c for c in live(house)[1] if (c["class"], c["cluster"]) == ("gpu", "sim")]
    assert gpus["capacity"] == 7000

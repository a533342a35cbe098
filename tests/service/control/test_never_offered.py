"""Nothing that is in quarantine is ever offered, whatever else happens: random lives in which releases get
stuck, come free, are confirmed, forced and fenced, and the loop dies in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from steelyard.control import release, shrinking
from steelyard.model.errors import SteelyardError
from steelyard.model.ids import parse
from steelyard.model.units import SECOND
from steelyard.services import releases
from steelyard.services.live_load import load_state
from steelyard.services.live_views import node_view
from steelyard.services.releases import Asked
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House
from tests.support.sticky_engine import Sticky
from tests.support.storms import Storm


class Fate(Sticky):
    """Stuck or not for every engine of the house at once, also for those of the next loop."""


class Quarantines(Storm):
    """A storm in which releases get stuck and operators act."""

    def run(self, steps: int) -> None:
        """As any storm; in the end everything comes free by itself."""
        self.steps += [self.stick, self.stick, self.loosen, self.ask, self.ask, self.ask]
        super().run(steps)
        Fate.stuck = False
        for _ in range(900):
            self.tick(SECOND)
            desk = self.house.loop.desk
            if desk is not None and not desk.context.state.releases:
                return
        raise AssertionError("something stays in quarantine")

    def stick(self) -> None:
        """What ends from now on holds on to what it had."""
        Fate.stuck, Fate.fencible = True, self.dice.random() < 0.3

    def loosen(self) -> None:
        """Whatever held on lets go."""
        Fate.stuck = False

    def ask(self) -> None:
        """An operator asks something about one of them."""
        rows, _ = releases.list_page(self.house.store, ADMIN, closed=False, cursor=None, limit=50)
        if rows:
            name = self.dice.choice(rows)["id"]
            asked = self.dice.choice(list(Asked))
            releases.ask(self.house.store, ADMIN, parse("release", name), asked, "to see what happens")


@pytest.fixture
def house(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    """A house whose releases must be proven within a second."""
    for module in (release, shrinking):
        monkeypatch.setattr(module, "release_bound", lambda _context, _clusters: SECOND)
    Fate.stuck = Fate.fencible = False
    made = House(sqlite_url(tmp_path), tmp_path, wrap=Fate)
    yield made
    made.close()
    Fate.stuck = Fate.fencible = False


def check(house: House) -> None:
    """In memory and in the store: no device has more held and kept back than there is, and none is offered
    beyond the rest."""
    desk = house.loop.desk
    if desk is None:
        return
    with house.store.read() as view:
        stored = load_state(view)
    state = desk.context.state
    for device in state.devices.values():
        assert device.quarantined >= 0
        assert device.held + device.quarantined <= device.capacity, device
        fresh = stored.devices[device.id]
        assert (fresh.held, fresh.quarantined) == (device.held, device.quarantined)
        kept = sum(q for case in state.releases.values() for d, q in case.quantities if d == device.id)
        assert kept == device.quarantined
    for node in state.nodes.values():
        _check_offer(state.devices, node)
    assert {a: c.version for a, c in state.releases.items()}.keys() == stored.releases.keys()


def _check_offer(devices: object, node: object) -> None:
    view = node_view(node)  # type: ignore[arg-type]
    known = {device.id: device for device in node.devices}  # type: ignore[attr-defined]
    for slot in view.slots:
        device = known[slot.device_id]
        assert slot.free <= device.capacity - device.held - device.quarantined
    for free in view.accelerators.values():
        assert not any(known[one].quarantined or known[one].reason == "fenced" for one in free.whole)
        for part in free.partial:
            device = known[part.device_id]
            assert part.remaining <= device.capacity - device.held - device.quarantined


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("seed", [0, *(pytest.param(s, marks=pytest.mark.soak) for s in range(1, 30))])
def test_nothing_in_quarantine_is_offered_in_any_life(house: House, seed: int) -> None:
    storm = Quarantines(house, seed + 900, lambda: check(house))
    with suppress(SteelyardError):
        storm.submit()
    rows: list[Any] = []
    for _ in range(4):  # now and then nothing got stuck in a life
        storm.run(40)
        rows, _ = releases.list_page(house.store, ADMIN, closed=True, cursor=None, limit=500)
        if rows:
            break
    assert {row["state"] for row in rows} <= {"proven", "operator-confirmed"}
    assert rows, "no release got stuck in this life"

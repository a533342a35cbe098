"""S-29: quota for devices that are not there, or not healthy, is told with the difference."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.locale import text
from steelyard.model.errors import ForbiddenError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.model.resources import Availability
from steelyard.services.doctor import examine
from steelyard.services.quota_inventory import quota_inventory
from steelyard.store.database import sqlite_url
from tests.support.house import ADMIN, House

QUEUES = """
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: 6}, {class: npu, nominal: 2}]}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices, and a queue that owns six of them and two of another class."""
    made = House(sqlite_url(tmp_path), tmp_path)
    made.apply(QUEUES)
    made.tick(3)
    yield made
    made.close()


def compared(house: House) -> dict[str, tuple[int | None, int, int, int, int]]:
    rows = quota_inventory(house.store, house.desk.snapshots, ADMIN)
    names = ("owned", "there", "offered", "ghost", "unowned")
    return {row["subject"]: tuple(row[name] for name in names) for row in rows}


def doctor(house: House) -> str:
    (check,) = [one for one in examine(house.store, ADMIN, {}, None) if one.id == "quota"]
    return text(f"doctor.{check.code}", {**check.params}, "en")


def test_what_queues_own_is_set_against_what_is_there_and_offered(house: House) -> None:
    found = compared(house)
    assert found["gpu"] == (6000, 8000, 8000, 0, 2000)  # two that nobody owns: only to be borrowed
    assert found["npu"] == (2000, 0, 0, 2000, 0)  # quota of which no device is there
    assert found["cpu"][0] is None  # no queue has a limit on it
    assert "npu: 2 owned, 0 offered, 2 missing" in doctor(house)


def test_devices_that_turn_bad_leave_their_quota_without_devices(house: House) -> None:
    assert house.loop.desk is not None
    state = house.loop.desk.context.state
    bad = [device.id for device in state.devices.values() if device.device_class == "gpu"][:3]
    for number in bad:
        device = state.touch(number)
        device.availability, device.reason = Availability.UNPLANNED, "unhealthy"
    from_loop = state.snapshot()
    house.desk.snapshots.full = lambda *_: (from_loop, state.policy)  # type: ignore[method-assign]
    assert compared(house)["gpu"] == (6000, 8000, 5000, 1000, 0)


def test_only_who_sees_the_whole_installation_is_told(house: House) -> None:
    member = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    with pytest.raises(ForbiddenError):
        quota_inventory(house.store, house.desk.snapshots, member)

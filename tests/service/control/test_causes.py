"""What is free says why it is free: also on a device that has just become one of its flavor."""

from __future__ import annotations

from pathlib import Path

from steelyard.control.metering import BLOCKED, SCHEDULABLE
from steelyard.store.database import sqlite_url
from tests.support.house import DOCUMENTS, House


def test_a_device_that_joins_a_known_flavor_is_told_why_that_is_idle(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS.replace('nominal: "8"', 'nominal: "2"'))
    try:
        two = {"cpu": "1", "memory": "1Gi", "gpu": 2}
        first = house.submit("first", requests=two, expect={"run": "600s"})
        house.run_until(lambda: house.phase(first) == "running")
        house.submit("second")
        house.tick(20)
        assert house.loop.desk is not None
        context = house.loop.desk.context
        free = [d for d in context.state.devices.values() if d.flavor == "a100" and not d.held]
        idle = [context.meter.parts(device.id) for device in free]
        assert {state for parts in idle for state, _ in parts} == {BLOCKED}
        context.meter.set_idle_cause([free[0].id], SCHEDULABLE, house.clock())  # as of one that is new
        context.state.touch_node(free[0].node_id)
        house.submit("third")  # for there to be another cycle
        house.tick(4)
        assert context.meter.parts(free[0].id) == idle[0]
    finally:
        house.close()

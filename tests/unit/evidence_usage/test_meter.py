"""The meter: parts that sum to the capacity at every instant, segments without gaps, exact restoring."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.evidence.usage import Meter, MeterDevice, MeterError, MeterWrites
from steelyard.model.resources import DeviceClass

DEVICE = MeterDevice(1, "west", DeviceClass.GPU, True)
REASON = "release-unconfirmed"


@pytest.fixture
def meter() -> Meter:
    meter = Meter()
    meter.register(DEVICE, 1000, 0, pool="p")
    meter.flush(0)
    return meter


def spans(writes: MeterWrites) -> list[tuple[int, int, str, str, int]]:
    return [(r["t0"], r["t1"], r["state"], r["reason"], r["quantity"]) for r in writes.unheld_rows]


def reloaded(meter: Meter, writes: list[dict[str, Any]]) -> Meter:
    fresh = Meter()
    fresh.load([{**row, "cluster": "west", "device_class": "gpu", "simulated": True} for row in writes])
    return fresh


def test_a_hold_closes_what_was_idle_and_its_end_opens_it_again(meter: Meter) -> None:
    meter.hold(1, 600, 10)
    meter.release(1, 600, 25)
    writes = meter.flush(30)
    assert spans(writes) == [(0, 10, "idle.schedulable", "", 1000), (10, 25, "idle.schedulable", "", 400)]
    assert meter.open_segments(30)[1][0]["t0"] == 25


def test_changes_at_one_instant_collapse(meter: Meter) -> None:
    meter.hold(1, 1000, 10)
    meter.release(1, 1000, 10)
    assert spans(meter.flush(10)) == []
    meter.hold(1, 1000, 10)
    meter.release(1, 1000, 10)
    assert spans(meter.flush(10)) == []
    assert meter.open_segments(20)[1][0]["t0"] == 0


def test_nothing_changed_gives_nothing_to_write(meter: Meter) -> None:
    meter.set_availability(1, "available", None, 5)
    meter.set_idle_cause([1], "idle.schedulable", 5)
    assert meter.flush(5) == ([], [], [], [])


@pytest.mark.parametrize("quantity", [1001, 0, -1])
def test_more_than_there_is_can_not_be_held(meter: Meter, quantity: int) -> None:
    with pytest.raises(MeterError):
        meter.hold(1, quantity, 10)
    assert meter.held(1) == 0


def test_more_than_is_held_can_not_be_given_back(meter: Meter) -> None:
    meter.hold(1, 500, 10)
    with pytest.raises(MeterError):
        meter.release(1, 501, 11)
    assert meter.held(1) == 500


def test_time_does_not_go_back(meter: Meter) -> None:
    meter.hold(1, 500, 10)
    with pytest.raises(MeterError):
        meter.release(1, 500, 9)
    assert meter.latest == 10


def test_what_is_held_stays_held_when_the_device_is_lost_and_the_rest_follows_the_reason(
    meter: Meter,
) -> None:
    meter.hold(1, 400, 10)
    meter.set_availability(1, "unknown", "cluster-unreachable", 20)
    meter.set_availability(1, "available", None, 30)
    writes = meter.flush(40)
    assert meter.held(1) == 400
    assert spans(writes)[1:] == [
        (10, 20, "idle.schedulable", "", 600),
        (20, 30, "unknown", "cluster-unreachable", 600),
    ]
    assert [(r["t0"], r["t1"], r["availability"]) for r in writes.capacity_rows] == [
        (0, 20, "available"),
        (20, 30, "unknown"),
    ]


def test_no_unavailable_device_is_without_a_reason(meter: Meter) -> None:
    with pytest.raises(MeterError):
        meter.set_availability(1, "unavailable.planned", None, 5)


def test_a_reservation_counts_from_when_its_victim_gives_back(meter: Meter) -> None:
    meter.hold(1, 1000, 10)
    meter.reserve(1, 1000, "at_new", 20)
    assert meter.parts(1) == {}
    meter.release(1, 1000, 30)
    assert meter.parts(1) == {("idle.reserved", "at_new"): 1000}
    meter.unreserve(1, "at_new", 40)
    meter.hold(1, 1000, 40)
    assert spans(meter.flush(40))[1:] == [(30, 40, "idle.reserved", "at_new", 1000)]


def test_a_quarantine_is_unavailable_and_can_not_be_held(meter: Meter) -> None:
    meter.hold(1, 1000, 10)
    meter.release(1, 1000, 20)
    meter.quarantine(1, 1000, "at_stuck", 20)
    with pytest.raises(MeterError):
        meter.hold(1, 1, 25)
    meter.unquarantine(1, "at_stuck", 30)
    assert spans(meter.flush(30))[1:] == [(20, 30, "unavailable.unplanned", REASON, 1000)]
    meter.hold(1, 1000, 31)


def test_a_cause_of_idleness_names_its_rule(meter: Meter) -> None:
    meter.set_idle_cause([1], "idle.blocked", 10, "quota/team-a")
    meter.set_idle_cause([1], "idle.fragmented", 20)
    assert spans(meter.flush(20))[1:] == [(10, 20, "idle.blocked", "quota/team-a", 1000)]
    with pytest.raises(MeterError):
        meter.set_idle_cause([1], "idle.reserved", 30)


def test_capacity_falls_only_down_to_what_is_held(meter: Meter) -> None:
    meter.hold(1, 700, 10)
    with pytest.raises(MeterError):
        meter.set_availability(1, "available", None, 20, capacity=600)
    meter.set_availability(1, "available", None, 20, capacity=700)
    writes = meter.flush(20)
    assert writes.capacity_rows[0]["capacity"] == 1000
    assert meter.parts(1) == {}


def test_a_move_to_another_pool_cuts_the_capacity_segment(meter: Meter) -> None:
    meter.set_pool(1, "q", 10)
    assert [(r["pool"], r["t1"]) for r in meter.flush(10).capacity_rows] == [("p", 10)]


def test_a_retired_device_is_closed_and_named(meter: Meter) -> None:
    meter.retire(1, 50)
    writes = meter.flush(50)
    assert (writes.retired, writes.meter_rows) == ([1], [])
    assert spans(writes) == [(0, 50, "idle.schedulable", "", 1000)]
    assert 1 not in meter


def test_a_device_with_a_holder_is_not_retired(meter: Meter) -> None:
    meter.hold(1, 1, 10)
    with pytest.raises(MeterError):
        meter.retire(1, 20)


def test_the_open_state_is_restored_exactly() -> None:
    meter = Meter()
    meter.register(DEVICE, 2000, 0)
    meter.hold(1, 500, 5)
    meter.reserve(1, 300, "at_r", 6)
    meter.quarantine(1, 100, "at_q", 7)
    meter.set_idle_cause([1], "idle.blocked", 8, "quota/x")
    kept = meter.flush(8).meter_rows
    other = reloaded(meter, kept)
    assert other.open_segments(50) == meter.open_segments(50)
    for one in (meter, other):
        one.set_availability(1, "unavailable.planned", "cordoned", 60)
        one.set_availability(1, "available", None, 70)
        one.release(1, 500, 80)
    assert other.flush(80) == meter.flush(80)
    assert other.latest == meter.latest

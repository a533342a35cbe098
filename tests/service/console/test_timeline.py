"""A device's history as a line: every interval begins and ends once, and what touches is one change."""

from __future__ import annotations

from typing import Any

from steelyard.console.timeline import timeline

DEVICE: dict[str, Any] = {
    "registered_at": 0, "retired_at": None, "state": "available", "reason": None, "facts": [], "pools": [],
    "availability_history": [], "health_history": [], "flag_history": [], "holders": [], "former": [],
}  # fmt: skip


def told(kind: str, **fields: Any) -> list[tuple[int, Any, Any]]:
    """(at, before, after) of the events of a kind, the oldest first."""
    events = timeline({**DEVICE, **fields})
    assert [event.at for event in events] == sorted((event.at for event in events), reverse=True)
    return [(event.at, event.before, event.after) for event in reversed(events) if event.kind == kind]


def spell(start: int, end: int | None, health: str, *processes: dict[str, Any]) -> dict[str, Any]:
    """A time in which something was said of it."""
    signs = [] if health == "healthy" else [{"code": "xid", "source": "kernel", "detail": ""}]
    return {
        "health": health, "signs": signs, "processes": list(processes), "valid_from": start, "valid_to": end
    }  # fmt: skip


def test_between_two_times_that_do_not_touch_it_was_healthy() -> None:
    history = [spell(10, 20, "degraded"), spell(20, 30, "unhealthy"), spell(50, None, "missing")]
    assert told("health", health_history=history) == [
        (10, "healthy", "degraded"), (20, "degraded", "unhealthy"), (30, "unhealthy", "healthy"),
        (50, "healthy", "missing"),
    ]  # fmt: skip


def test_a_stranger_that_stays_while_health_changes_is_one_stay() -> None:
    python = {"name": "python", "pid": 7}
    history = [spell(10, 20, "healthy", python), spell(20, 30, "degraded", python)]
    assert told("processes", health_history=history) == [(10, None, "python (7)"), (30, "python (7)", None)]


def test_states_lead_to_what_holds_now_and_not_to_what_is_of_its_cluster() -> None:
    spans = [
        {"t0": 0, "t1": 10, "availability": "available", "reason": None},
        {"t0": 10, "t1": 20, "availability": "unavailable.planned", "reason": "cordoned"},
    ]
    gone = {"state": "unknown", "reason": "cluster-unreachable"}
    assert told("state", availability_history=spans) == [
        (10, "available", "cordoned"), (20, "cordoned", "available"),
    ]  # fmt: skip
    assert told("state", availability_history=spans, **gone) == [(10, "available", "cordoned")]


def test_facts_that_came_with_the_device_are_its_registration() -> None:
    def fact(value: Any, start: int, end: int | None) -> dict[str, Any]:
        return {"key": "driver", "value": value, "source": "tool", "provenance": "detected",
                "valid_from": start, "valid_to": end}  # fmt: skip

    versions = [fact("1", 0, 10), fact("2", 10, 20), fact("2", 30, None)]
    assert told("fact", facts=versions) == [(10, "1", "2"), (20, "2", None), (30, None, "2")]


def test_a_move_between_pools_is_one_change() -> None:
    spans = [
        {"pool": "a", "flavor": "x", "valid_from": 0, "valid_to": 10},
        {"pool": "b", "flavor": "x", "valid_from": 10, "valid_to": None},
    ]
    assert told("pool", pools=spans) == [(0, None, "a/x"), (10, "a/x", "b/x")]

"""Flags and the past of the inventory through the API."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.evidence.leaf import ActorRef
from steelyard.store import tables as t
from steelyard.store.unit import Unit
from tests.service.api.conftest import ApiHouse

CORDON = {"on": "sim/sim-0", "act": "cordon", "reason": "fan is loud"}


@pytest.fixture(autouse=True)
def node(house: ApiHouse) -> None:
    """One node, as the control loop would have registered it."""
    unit, store = Unit(ActorRef("control", "control")), house.services.store
    values = {"availability": "available", "labels_json": "{}"}
    unit.insert(t.node, id=1, cluster="sim", name="sim-0", simulated=True, version=1, **values)
    unit.insert(t.node_state, node_id=1, set_by="sim", valid_from=1, version=1, **values)
    store.writer.write(unit)


def test_a_flag_is_set_once_under_one_key_and_listed_until_it_is_lifted(house: ApiHouse) -> None:
    ask = house.as_("admin")
    first = ask("POST", "/v1/flags", CORDON, Idempotency_Key="one")
    again = ask("POST", "/v1/flags", CORDON, Idempotency_Key="one")
    assert (first.status_code, again.status_code) == (200, 200)
    assert first.json()["flags"] == again.json()["flags"]
    (flag,) = ask("GET", "/v1/flags").json()["items"]
    told = (flag["name"], flag["flag"], flag["by"], flag["reason"])
    assert told == ("sim-0", "cordoned", "admin", "fan is loud")
    ask("POST", "/v1/flags", {**CORDON, "act": "uncordon"})
    assert ask("GET", "/v1/flags").json()["items"] == []


def test_what_is_wrong_is_said(house: ApiHouse) -> None:
    ask = house.as_("admin")
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({**CORDON, "reason": " "}, 400, "reason-missing"),
        ({**CORDON, "act": "paint"}, 400, "request-invalid"),
        ({**CORDON, "act": "uncordon"}, 409, "not-flagged"),
        ({**CORDON, "on": "nowhere"}, 404, "not-found"),
    ]
    for body, status, code in cases:
        answer = ask("POST", "/v1/flags", body)
        assert (answer.status_code, answer.json()["code"]) == (status, code), body


def test_the_past_is_asked_for_by_an_instant_that_has_come(house: ApiHouse) -> None:
    ask = house.as_("vic")
    now = ask("GET", "/v1/inventory/summary").json()["as_of"]
    for path in ("/v1/inventory", "/v1/inventory/summary"):
        assert ask("GET", f"{path}?at={now}").status_code == 200
        answer = ask("GET", f"{path}?at={now + 10**12}")
        assert (answer.status_code, answer.json()["code"]) == (400, "time-to-come")
    answer = ask("GET", "/v1/inventory/diff?from=5&to=5")
    assert (answer.status_code, answer.json()["code"]) == (400, "window-invalid")
    found = ask("GET", "/v1/inventory/diff?from=1").json()
    assert found["complete"]

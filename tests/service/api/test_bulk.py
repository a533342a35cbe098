"""Many workloads in one request: each by itself, in their order, once under a key."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.services import bulk
from steelyard.services.bulk import MOST_DOCUMENTS
from tests.service.api.conftest import ApiHouse
from tests.service.api.test_walk import JOB

PATH = "/v1/workloads:submit"


def _named(name: str, **metadata: str) -> dict[str, Any]:
    return {**JOB, "metadata": {**JOB["metadata"], "name": name, **metadata}}


def test_each_document_is_admitted_or_turned_away_by_itself(house: ApiHouse) -> None:
    admin = house.as_("admin")
    bad = _named("lost", namespace="nowhere")
    answer = admin("POST", PATH, {"documents": [_named("one"), bad, _named("two"), 7]})
    assert answer.status_code == 200, answer.text
    one, lost, two, number = answer.json()["results"]
    assert [one["status"], lost["status"], two["status"], number["status"]] == [201, 422, 201, 400]
    assert admin("GET", f"/v1/workloads/{two['id']}").json()["name"] == "two"
    assert lost["problem"]["reasons"][0]["code"] == "no-namespace"
    refusal = admin("GET", f"/v1/refusals/{lost['problem']['refusal']}").json()
    assert (refusal["name"], refusal["namespace"]) == ("lost", "nowhere")
    assert len(admin("GET", "/v1/workloads").json()["items"]) == 2


def test_a_request_sent_again_under_its_key_submits_only_what_was_not(house: ApiHouse) -> None:
    admin, key = house.as_("admin"), {"Idempotency-Key": "night"}
    first = admin("POST", PATH, {"documents": [_named("one")]}, **key).json()["results"]
    again = admin("POST", PATH, {"documents": [_named("one"), _named("two")]}, **key).json()["results"]
    assert (again[0]["id"], again[0]["replayed"]) == (first[0]["id"], True)
    assert (again[1]["status"], again[1]["replayed"]) == (201, False)
    assert len(admin("GET", "/v1/workloads").json()["items"]) == 2


def test_another_document_at_the_same_place_of_a_key_is_a_conflict(house: ApiHouse) -> None:
    admin, key = house.as_("admin"), {"Idempotency-Key": "night"}
    admin("POST", PATH, {"documents": [_named("one")]}, **key)
    answer = admin("POST", PATH, {"documents": [_named("other")]}, **key)
    assert (answer.status_code, answer.json()["code"]) == (409, "idempotency-key-reused")


def test_a_request_carries_a_bounded_number_of_documents(house: ApiHouse) -> None:
    answer = house.as_("admin")("POST", PATH, {"documents": [0] * (MOST_DOCUMENTS + 1)})
    assert (answer.status_code, answer.json()["code"]) == (400, "too-many-documents")
    assert answer.json()["params"] == {"most": MOST_DOCUMENTS, "given": MOST_DOCUMENTS + 1}


def test_the_same_request_twice_at_once_gets_the_same_ids(
    house: ApiHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin, key = house.as_("admin"), {"Idempotency-Key": "night"}
    body = {"documents": [_named("one"), _named("two")]}
    first = admin("POST", PATH, body, **key).json()["results"]
    found, looks = bulk._answered, 0

    def late(desk: Any, keys: Any) -> Any:  # the other one's answer was not there yet when this one looked
        nonlocal looks
        looks += 1
        return {} if looks == 1 else found(desk, keys)

    monkeypatch.setattr(bulk, "_answered", late)
    again = admin("POST", PATH, body, **key).json()["results"]
    assert [one["id"] for one in again] == [one["id"] for one in first]
    assert [one["replayed"] for one in again] == [True, True]
    assert len(admin("GET", "/v1/workloads").json()["items"]) == 2


def test_a_number_of_replicas_is_a_number(house: ApiHouse) -> None:
    path = "/v1/workloads/wl_0000000000000/scale"
    for wrong in (True, "3", 3.0):
        answer = house.as_("admin")("POST", path, {"replicas": wrong})
        assert (answer.status_code, answer.json()["code"]) == (400, "request-invalid"), answer.text

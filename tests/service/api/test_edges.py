"""The edges of HTTP: what is described, what a wrong method or address is told, what is read of whom."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.identity.actor import SYSTEM
from steelyard.model.organisation import Scope
from steelyard.model.units import DAY, HOUR
from steelyard.services.changes import Change
from steelyard.services.sessions import create_token, list_tokens
from tests.service.api.conftest import Api, ApiHouse


def test_every_route_describes_its_problems(house: ApiHouse) -> None:
    described: dict[str, Any] = house.as_("admin")("GET", "/v1/openapi.json").json()
    for path, operations in described["paths"].items():
        for method, operation in operations.items():
            answers = operation["responses"]
            assert "application/problem+json" in answers["default"]["content"], (method, path)
            assert "422" not in answers, (method, path)  # the framework's own form, which is never sent


def test_a_slash_too_many_is_no_redirect_to_a_host_that_the_request_names(house: ApiHouse) -> None:
    answer = house.as_("ann")("GET", "/v1/workloads/", Host="evil.example")
    assert answer.status_code == 404
    assert "location" not in answer.headers


def test_a_method_that_is_not_taken_is_told_those_that_are(house: ApiHouse) -> None:
    answer = house.as_("ann")("PUT", "/v1/me")
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert answer.headers["Allow"] == "GET"
    assert house.as_("ann")("PUT", "/v1/workloads").headers["Allow"] == "GET, POST"


@pytest.mark.requirement("I5")
def test_who_is_bound_nowhere_sees_nothing_of_the_house(house: ApiHouse) -> None:
    nobody = house.as_("nob")
    for path in ("/v1/objects", "/v1/objects:export", "/v1/workloads", "/v1/refusals"):
        assert not any(nobody("GET", path).json().get(key) for key in ("items", "documents")), path
    device = Change(1, 1, "device.changed", "device", "dv_1", 1, None, None)
    assert not device.visible(Scope(frozenset()))
    assert device.visible(Scope(frozenset({"vision"})))


def test_a_token_makes_none_that_outlives_it(house: ApiHouse) -> None:
    store = house.services.store
    issued = create_token(store, SYSTEM, "short", user="ann", expires_in=HOUR)
    short = Api(house.app, issued.secret)
    for asked in (None, "30d"):
        made = short("POST", "/v1/tokens", {"name": "child", "expires_in": asked})
        assert (made.status_code, made.json()["expires_at"]) == (201, issued.expires_at)
    session = house.as_(None)("POST", "/v1/sessions", {"user": "admin", "password": house.admin_password})
    admin = Api(house.app, session.json()["token"])
    own = {"old": house.admin_password, "new": "a-password-of-mine"}
    assert admin("POST", "/v1/users/admin/password", own).status_code == 200
    assert admin("POST", "/v1/tokens", {"name": "long", "expires_in": "30d"}).status_code == 201
    (long,) = [row for row in list_tokens(store, SYSTEM) if row.name == "long"]
    assert long.expires_at == long.created_at + 30 * DAY


def test_a_large_body_is_read_of_somebody_known_only(house: ApiHouse) -> None:
    large = b'{"documents": [' + b" " * 200_000 + b"]}"
    nobody, wrong = house.as_(None), Api(house.app, "sy_" + "a" * 43)
    for who in (nobody, wrong):
        assert who.raw("POST", "/v1/objects:apply", large).status_code == 401
    assert house.as_("admin").raw("POST", "/v1/objects:apply", large).status_code == 200
    answer = nobody.raw("POST", "/v1/sessions", b'{"user": "' + b"a" * 100_000 + b'"}')
    assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")

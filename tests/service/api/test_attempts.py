"""Who tries what it may not stands in the audit, whatever the route; nobody fills the log by trying."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import select

from steelyard.services.attempts import MAX_A_MINUTE
from steelyard.services.log_check import check_log
from steelyard.store import tables as t
from steelyard.store.leaves import bodies, log_size
from tests.service.api.conftest import ApiHouse
from tests.support.stores import doc

HIDDEN = "wl_0000000000000"
DENIED = [
    ("POST", "/v1/objects:apply", {"documents": [doc("Team", "x")]}, "missing-grant"),
    ("DELETE", "/v1/objects/Queue/main", None, "missing-grant"),
    ("POST", "/v1/users", {"name": "zed"}, "missing-grant"),
    ("POST", "/v1/users/admin/disable", None, "missing-grant"),
    ("POST", "/v1/users/admin/password", {"new": "long-enough-word"}, "missing-grant"),
    ("POST", "/v1/users/ann/password", {"new": "long-enough-word", "old": "wrong"}, "old-password-wrong"),
    ("POST", "/v1/tokens", {"name": "t", "user": "admin"}, "missing-grant"),
    ("GET", "/v1/audit/leaves", None, "missing-grant"),
    ("POST", "/v1/audit/bundle", None, "missing-grant"),
    ("GET", "/v1/doctor", None, "missing-grant"),
    ("POST", f"/v1/workloads/{HIDDEN}/cancel", None, "not-found"),
    ("DELETE", "/v1/tokens/cr_0000000000000", None, "not-found"),
]


def leaves_after(house: ApiHouse, start: int) -> list[dict[str, Any]]:
    """Leaves from `start` on, when all that is to be noted is written."""
    house.services.attempts.close()
    with house.services.store.read() as view:
        return [msgspec.json.decode(body) for body in bodies(view, start, log_size(view))]


def size(house: ApiHouse) -> int:
    with house.services.store.read() as view:
        return log_size(view)


@pytest.mark.requirement("K2", "J3")
@pytest.mark.parametrize(("method", "path", "body", "code"), DENIED, ids=range(len(DENIED)))
def test_a_denied_request_leaves_a_leaf_that_names_who_and_what(
    house: ApiHouse, method: str, path: str, body: Any, code: str
) -> None:
    before = size(house)
    ann = house.as_("ann")
    me = ann("GET", "/v1/me").json()["id"]
    answer = ann(method, path, body)
    assert answer.json()["code"] == code
    (leaf,) = leaves_after(house, before)
    assert (leaf["action"], leaf["outcome"]) == ("access.refused", "refused")
    assert (leaf["actor"]["id"], leaf["object"]["id"]) == (me, me)
    assert leaf["origin"]["request_id"] == answer.headers["X-Request-Id"]
    detail = leaf["detail"]
    assert (detail["code"], detail["count"]) == (code, 1)
    assert detail["request"].startswith(f"{method} /v1/")
    assert detail["object"] is None or detail["object"].split("/")[-1] in path
    assert "long-enough-word" not in str(leaf)
    with house.services.store.read() as view:
        assert all(check.ok for check in check_log(view))


def sign_in_leaves(house: ApiHouse, *names: str) -> list[dict[str, Any]]:
    """What refused sign-ins of these names left."""
    before = size(house)
    for name in names:
        body = {"user": name, "password": "a-wrong-password"}
        assert house.as_(None)("POST", "/v1/sessions", body).json()["code"] == "login-refused"
    return leaves_after(house, before)


@pytest.mark.requirement("J3")
def test_a_sign_in_of_nobody_leaves_a_leaf_as_a_wrong_password_does(house: ApiHouse) -> None:
    wrong, nobody = sign_in_leaves(house, "ann", "mallory")
    for leaf in (wrong, nobody):
        assert (leaf["action"], leaf["outcome"]) == ("session.refused", "refused")
        assert leaf["origin"]["ip"]["h"]
    assert "mallory" not in str(nobody)
    with house.services.store.read() as view:
        stored = {row.digest: row.value for row in view.execute(select(t.confidential))}
        assert all(check.ok for check in check_log(view))
    assert stored[nobody["detail"]["user"]["h"]] == "mallory"


def test_what_can_be_no_name_is_not_kept_as_it_may_be_a_password(house: ApiHouse) -> None:
    (leaf,) = sign_in_leaves(house, "My Secret Word!")
    assert leaf["detail"] == {"user": None, "count": 1}


def test_names_that_nobody_has_count_as_one(house: ApiHouse) -> None:
    found = sign_in_leaves(house, *(f"name-{number}" for number in range(MAX_A_MINUTE + 3)))
    assert MAX_A_MINUTE <= len(found) <= MAX_A_MINUTE + 3  # a minute may have begun anew


def test_looking_for_what_is_not_there_is_no_attempt(house: ApiHouse) -> None:
    before = size(house)
    assert house.as_("ann")("GET", f"/v1/workloads/{HIDDEN}").status_code == 404
    assert leaves_after(house, before) == []


def test_trying_fills_no_log(house: ApiHouse) -> None:
    before = size(house)
    for _ in range(MAX_A_MINUTE + 5):
        assert house.as_("ann")("GET", "/v1/doctor").status_code == 403
    found = leaves_after(house, before)
    assert MAX_A_MINUTE <= len(found) < 2 * MAX_A_MINUTE  # a minute may have begun anew

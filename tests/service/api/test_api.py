"""The API of accounts and declared objects: credentials, problems, paging, idempotency, versions."""

from __future__ import annotations

import json

import pytest

from tests.service.api.conftest import ApiHouse
from tests.support.stores import SMALL_HOUSE, doc


def test_health_answers_without_a_credential(house: ApiHouse) -> None:
    for path in ("/healthz", "/readyz"):
        assert house.as_(None)("GET", path).json() == {"status": "ok"}


def test_a_session_from_sign_in_to_sign_out(house: ApiHouse) -> None:
    nobody = house.as_(None)
    opened = nobody("POST", "/v1/sessions", {"user": "admin", "password": house.admin_password})
    assert opened.status_code == 201
    assert opened.headers["Cache-Control"] == "no-store"
    bearer = {"Authorization": f"Bearer {opened.json()['token']}"}
    me = nobody("GET", "/v1/me", **bearer).json()
    assert (me["name"], me["administrator"], me["must_change_password"]) == ("admin", True, True)
    changed = nobody(
        "POST", "/v1/users/admin/password", {"old": house.admin_password, "new": "another-password"}, **bearer
    )
    assert changed.json()["must_change_password"] is False
    assert nobody("DELETE", "/v1/sessions/current", **bearer).status_code == 204
    assert nobody("GET", "/v1/me", **bearer).status_code == 401


def test_a_problem_has_code_parameters_and_a_sentence_in_the_readers_language(house: ApiHouse) -> None:
    path = "/v1/objects/Queue/none"
    english = house.as_("admin")("GET", path, **{"Accept-Language": "en"})
    chinese = house.as_("admin")("GET", path, **{"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.5"})
    assert english.headers["Content-Type"] == "application/problem+json"
    problem = english.json()
    assert (problem["status"], problem["code"]) == (404, "not-found")
    assert problem["type"] == "urn:steelyard:error:not-found"
    assert problem["params"] == {"kind": "Queue", "id": "none"}
    assert problem["request_id"] == english.headers["X-Request-Id"]
    assert problem["detail"] != chinese.json()["detail"]
    assert problem["title"] != chinese.json()["title"]


def test_what_nobody_foresaw_is_told_without_detail(house: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("steelyard.services.declared.export", broken)
    answer = house.as_("admin")("GET", "/v1/objects:export")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "secret detail" not in answer.text


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "body-not-json"),
        (b'{"documents": [], "documents": []}', "body-key-twice"),
        (b'{"documents": [NaN]}', "body-number-invalid"),
        (b'{"documents": [-Infinity]}', "body-number-invalid"),
        (b"\xff\xfe", "body-not-json"),
        (b'{"documents": ["\\ud800"]}', "body-text-invalid"),
        (b'{"documents": ' + b"[" * 100 + b"]" * 100 + b"}", "body-too-deep"),
        (b'{"documents": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "body-too-deep"),
        (b'{"documents": [' + b"9" * 5000 + b"]}", "body-not-json"),
        (b'{"documents": [], "more": 1}', "request-invalid"),
        (b'{"documents": 5}', "request-invalid"),
    ],
    ids=range(11),
)
def test_a_body_that_is_malformed_is_refused_with_its_own_code(
    house: ApiHouse, content: bytes, code: str
) -> None:
    answer = house.as_("admin").raw("POST", "/v1/objects:apply", content)
    assert (answer.status_code, answer.json()["code"]) == (400, code)
    assert len(answer.content) < 2000


def test_bodies_are_bounded_and_documents_may_be_larger(house: ApiHouse) -> None:
    admin = house.as_("admin")
    large = json.dumps({"documents": [doc("Team", "a" * 2_000_000)]}).encode()
    answer = admin.raw("POST", "/v1/objects:apply", large)
    assert (answer.status_code, answer.json()["code"]) == (400, "name-invalid")
    assert len(answer.content) < 2000
    for path, size in (("/v1/tokens", 1024 * 1024 + 1), ("/v1/objects:apply", 10 * 1024 * 1024 + 1)):
        answer = admin.raw("POST", path, b" " * size)
        assert (answer.status_code, answer.json()["code"]) == (413, "body-too-large")


def test_apply_diff_export_and_read_over_the_api(house: ApiHouse) -> None:
    admin = house.as_("admin")
    change = {"documents": [doc("Team", "alpha", displayName="Alpha")]}
    for query, version in (("?dry_run=true", 1), ("", 2)):
        (result,) = admin("POST", f"/v1/objects:apply{query}", change).json()["results"]
        assert (result["action"], result["version"]) == ("changed", 2)
        assert result["diff"] == [{"path": "spec.displayName", "before": None, "after": "Alpha"}]
        got = admin("GET", "/v1/objects/Team/alpha")
        assert got.headers["ETag"] == f'"{version}"'
    assert len(admin("GET", "/v1/objects/team/alpha/history").json()["items"]) == 2
    exported = admin("GET", "/v1/objects:export").json()
    results = admin("POST", "/v1/objects:apply", exported).json()["results"]
    assert {r["action"] for r in results} == {"unchanged"}


def test_an_error_in_a_document_names_document_and_path(house: ApiHouse) -> None:
    documents = [doc("Team", "ok"), doc("Queue", "q", limits=[{"class": "gpu", "nominal": 1, "foo": 1}])]
    answer = house.as_("admin")("POST", "/v1/objects:apply", {"documents": documents})
    assert answer.status_code == 400
    assert answer.json()["params"] == {"path": "spec.limits[0].foo", "document": 1}
    assert house.as_("admin")("GET", "/v1/objects/Team/ok").status_code == 404


@pytest.mark.parametrize(
    ("path", "name", "allowed"),
    [
        ("/v1/workloads?phase=bogus", "phase", ["held", "releasing", "finished", "live"]),
        ("/v1/workloads?outcome=bogus", "outcome", ["succeeded", "lost"]),
        ("/v1/workloads?order=bogus", "order", ["newest", "oldest"]),
        ("/v1/inventory?class=bogus", "class", ["gpu", "memory"]),
    ],
)
def test_a_value_out_of_a_closed_list_is_answered_with_the_list(
    house: ApiHouse, path: str, name: str, allowed: list[str]
) -> None:
    answer = house.as_("admin")("GET", path)
    assert (answer.status_code, answer.json()["code"]) == (400, "field-invalid")
    params = answer.json()["params"]
    assert params["path"] == name
    assert set(allowed) <= set(params["expected"].split(" | "))


def test_lists_come_in_pages_that_are_whole_together(house: ApiHouse) -> None:
    admin = house.as_("admin")
    whole = admin("GET", "/v1/objects?limit=500").json()
    assert whole["next_cursor"] is None
    found, cursor, pages = [], "", 0
    while cursor is not None:
        page = admin("GET", f"/v1/objects?limit=7&cursor={cursor}").json()
        found += page["items"]
        cursor, pages = page["next_cursor"], pages + 1
    assert found == whole["items"]
    assert pages == -(-len(found) // 7) > 1
    for query in ("limit=0", "limit=501", "cursor=%00", "cursor=abc"):
        assert admin("GET", f"/v1/objects?{query}").status_code == 400


def test_the_same_request_sent_again_gets_the_same_answer_and_acts_once(house: ApiHouse) -> None:
    admin = house.as_("admin")
    body = {"documents": [doc("Team", "new")]}
    first = admin("POST", "/v1/objects:apply", body, **{"Idempotency-Key": "k1"})
    again = admin("POST", "/v1/objects:apply", body, **{"Idempotency-Key": "k1"})
    assert again.json() == first.json()
    assert again.headers["Idempotency-Replayed"] == "true"
    other = admin("POST", "/v1/objects:apply", {"documents": []}, **{"Idempotency-Key": "k1"})
    assert (other.status_code, other.json()["code"]) == (409, "idempotency-key-reused")


def test_a_secret_is_not_kept_for_a_request_sent_again(house: ApiHouse) -> None:
    ann = house.as_("ann")
    first = ann("POST", "/v1/tokens", {"name": "ci"}, **{"Idempotency-Key": "t"}).json()
    again = ann("POST", "/v1/tokens", {"name": "ci"}, **{"Idempotency-Key": "t"}).json()
    assert first.pop("token").startswith("sy_")
    assert again.pop("token") is None
    assert first == again
    assert len(ann("GET", "/v1/tokens").json()["items"]) == 2


def test_retiring_wants_the_version_that_is_meant(house: ApiHouse) -> None:
    admin, path = house.as_("admin"), "/v1/objects/Quota/vision"
    assert admin("DELETE", path, **{"If-Match": '"9"'}).json()["code"] == "version-mismatch"
    assert admin("DELETE", path, **{"If-Match": "x"}).status_code == 400
    assert admin("DELETE", f"{path}?dry_run=true", **{"If-Match": '"1"'}).json()["action"] == "retired"
    assert admin("DELETE", path, **{"If-Match": '"1"'}).json()["action"] == "retired"
    assert admin("DELETE", path).status_code == 404
    assert admin("DELETE", "/v1/objects/Team/alpha").json()["code"] == "object-in-use"


def test_an_administrator_makes_accounts_and_takes_them_away(house: ApiHouse) -> None:
    admin, nobody = house.as_("admin"), house.as_(None)
    made = admin("POST", "/v1/users", {"name": "eve", "display_name": "Eve"})
    assert made.status_code == 201
    signed_in = nobody("POST", "/v1/sessions", {"user": "eve", "password": made.json()["password"]})
    bearer = {"Authorization": f"Bearer {signed_in.json()['token']}"}
    own = {"old": made.json()["password"], "new": "a-password-of-mine"}
    assert nobody("POST", "/v1/users/eve/password", own, **bearer).status_code == 200
    assert [u["name"] for u in nobody("GET", "/v1/users", **bearer).json()["items"]] == ["eve"]
    assert nobody("POST", "/v1/users", {"name": "x"}, **bearer).json()["code"] == "missing-grant"
    assert admin("POST", "/v1/users/eve/disable").json()["disabled"] is True
    assert nobody("GET", "/v1/me", **bearer).status_code == 401


def test_a_password_never_comes_back_in_an_error(house: ApiHouse) -> None:
    answer = house.as_(None)("POST", "/v1/sessions", {"user": "ann", "password": ["hidden-word"]})
    assert answer.status_code == 400
    assert "hidden-word" not in answer.text


def test_a_member_sees_its_own_objects_and_others_as_not_there(house: ApiHouse) -> None:
    ann = house.as_("ann")
    names = {(i["kind"], i["metadata"]["name"]) for i in ann("GET", "/v1/objects?limit=500").json()["items"]}
    assert ("Project", "vision") in names
    assert ("Project", "speech") not in names
    hidden = ann("GET", "/v1/objects/Project/speech")
    missing = ann("GET", "/v1/objects/Project/never")
    assert hidden.status_code == missing.status_code == 404
    assert hidden.json()["detail"].replace("speech", "never") == missing.json()["detail"]


def test_the_description_of_the_routes_needs_a_credential(house: ApiHouse) -> None:
    for path in ("/v1/openapi.json", "/docs", "/openapi.json"):
        assert house.as_(None)("GET", path).status_code in (401, 404)
    described = house.as_("ann")("GET", "/v1/openapi.json").json()
    assert "/v1/objects:apply" in described["paths"]


def test_the_house_of_the_tests_is_applied_whole(house: ApiHouse) -> None:
    assert len(house.as_("admin")("GET", "/v1/objects?limit=500").json()["items"]) >= len(SMALL_HOUSE)

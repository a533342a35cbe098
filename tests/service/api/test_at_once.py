"""Many requests at once: nobody is told of a conflict that is none, or waits for others' passwords."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from fastapi.testclient import TestClient

from steelyard.api.audit import WHOLE_HOUSE
from steelyard.api.lanes import QUESTIONS
from steelyard.api.sessions import SIGN_INS
from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import UnauthenticatedError
from steelyard.services import declared
from steelyard.services.documents import parse_document
from steelyard.services.sessions import Logins, create_token, list_tokens, revoke_token
from tests.service.api.conftest import ApiHouse
from tests.support.stores import doc


def at_once(count: int, act: Callable[[int], object]) -> Counter[str]:
    """What came of it: `ok`, or the code of the error."""

    def one(number: int) -> str:
        try:
            act(number)
        except Exception as error:
            return str(getattr(error, "code", error))
        return "ok"

    with ThreadPoolExecutor(count) as pool:
        return Counter(pool.map(one, range(count)))


def test_many_tokens_of_one_account_at_once(house: ApiHouse) -> None:
    store, found = house.services.store, house.services.principals
    ann = found.identify(house.secrets["ann"]).principal
    assert at_once(30, lambda number: create_token(store, ann, f"t{number}")) == {"ok": 30}
    ids = [row.id for row in list_tokens(store, ann) if (row.name or "").startswith("t")]
    assert at_once(30, lambda number: revoke_token(store, ann, ids[number])) == {"ok": 30}


def test_many_applies_at_once(house: ApiHouse) -> None:
    def apply(number: int) -> None:
        document = parse_document(doc("PriorityClass", f"race-{number % 3}", value=number))
        declared.apply(house.services.store, SYSTEM, [document])

    assert at_once(24, apply) == {"ok": 24}


def test_a_flood_of_sign_ins_does_not_keep_others_waiting(
    house: ApiHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, signing_in = threading.Event(), threading.Semaphore(0)

    def slow(*_: object, **__: object) -> None:
        signing_in.release()
        go_on.wait(30)
        raise UnauthenticatedError("login-refused")

    monkeypatch.setattr(Logins, "login", slow)
    body = {"user": "ann", "password": "x" * 12}
    bearer = {"Authorization": f"Bearer {house.secrets['ann']}"}
    with TestClient(house.app) as client, ThreadPoolExecutor(24) as pool:
        waiting = [pool.submit(client.post, "/v1/sessions", json=body) for _ in range(24)]
        assert all(signing_in.acquire(timeout=30) for _ in range(SIGN_INS.workers))
        try:
            assert client.get("/v1/me", headers=bearer).status_code == 200
            assert not any(one.done() for one in waiting)
        finally:
            go_on.set()
        assert {one.result().status_code for one in waiting} == {401}


def test_too_many_sign_ins_are_told_to_come_again(house: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SIGN_INS, "waiting", 0)
    body = {"user": "admin", "password": house.admin_password}
    answer = house.as_(None)("POST", "/v1/sessions", body)
    assert (answer.status_code, answer.json()["code"]) == (503, "too-many-sign-ins")
    assert answer.headers["Retry-After"] == "1"


def test_audits_of_the_whole_house_take_turns_but_strangers_are_turned_away_at_once(
    house: ApiHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WHOLE_HOUSE, "waiting", 0)
    for path in ("/v1/audit/checks", "/v1/audit/bundle"):
        assert house.as_("ann")("POST", path).status_code == 403
    assert house.as_("aud")("POST", "/v1/audit/checks").json()["code"] == "too-many-audits"


def test_questions_to_the_scheduler_take_turns_beside_everything_else(
    house: ApiHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QUESTIONS, "waiting", 0)
    asked: list[tuple[str, str, object]] = [
        ("GET", "/v1/estimates", None),
        ("POST", "/v1/what-if", {"changes": [{"end": "none"}]}),
        ("POST", "/v1/policy:preview", {"documents": [doc("Queue", "q")]}),
        ("POST", "/v1/cycles:replay", {}),
    ]
    for method, path, body in asked:
        answer = house.as_("admin")(method, path, body)
        assert (answer.status_code, answer.json()["code"]) == (503, "too-many-questions"), path
    assert house.as_("admin")("GET", "/v1/queues").status_code == 200

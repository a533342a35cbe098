"""The app in process, over a store of the test's own, and people who are signed in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from steelyard.api.app import create_app
from steelyard.api.context import Services
from steelyard.identity.actor import SYSTEM
from steelyard.services.live_load import SnapshotSource
from steelyard.services.sessions import create_token
from steelyard.services.setup import first_start
from steelyard.services.users import create_user
from steelyard.services.workloads import Desk
from steelyard.store.store import Store
from tests.support.stores import SMALL_HOUSE, apply, doc

PEOPLE = {
    "ann": {"role": "member", "project": "vision"},
    "vic": {"role": "viewer", "project": "vision"},
    "aud": {"role": "auditor"},
    "bob": {"role": "member", "project": "speech"},
    "nob": None,
}


class Api:
    """A client that speaks as one person."""

    def __init__(self, app: FastAPI, secret: str | None) -> None:
        self.client = TestClient(app, raise_server_exceptions=False)
        self.headers = {} if secret is None else {"Authorization": f"Bearer {secret}"}

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, path, json=body, headers={**self.headers, **given})

    def raw(self, method: str, path: str, content: bytes, **headers: str) -> httpx.Response:
        given = {"Content-Type": "application/json", **headers}
        return self.client.request(method, path, content=content, headers={**self.headers, **given})


class ApiHouse:
    """The app, its services, and a client for each person by name; `None` is nobody."""

    def __init__(self, store: Store) -> None:
        self.services = Services.over(store, desk=Desk(store, SnapshotSource()))
        self.app = create_app(self.services)
        self.admin_password = first_start(store) or ""
        apply(store, *SMALL_HOUSE)
        for name, binding in PEOPLE.items():
            create_user(store, SYSTEM, name)
            if binding is not None:
                apply(store, doc("Binding", name, user=name, **binding))
        self.secrets = {
            name: create_token(store, SYSTEM, "test", user=name).secret for name in ["admin", *PEOPLE]
        }

    def as_(self, name: str | None) -> Api:
        return Api(self.app, None if name is None else self.secrets[name])


@pytest.fixture
def house(store: Store) -> Iterator[ApiHouse]:
    made = ApiHouse(store)
    yield made
    made.services.attempts.close()

"""The console in process, and people who are signed in to it as a browser is: by a cookie."""

from __future__ import annotations

import re
from typing import Any

import httpx
from fastapi.testclient import TestClient

from steelyard.api.context import Services
from steelyard.bootstrap import create_door
from steelyard.console.cookies import SESSION
from steelyard.identity.actor import SYSTEM
from steelyard.services.live_load import SnapshotSource
from steelyard.services.sessions import create_token
from steelyard.services.setup import first_start
from steelyard.services.users import create_user
from steelyard.services.workloads import Desk
from steelyard.store.store import Store
from tests.support.house import House
from tests.support.stores import SMALL_HOUSE, apply, doc

#: name → its binding.
PEOPLE: dict[str, dict[str, str] | None] = {
    "ann": {"role": "member", "project": "vision"},
    "vic": {"role": "viewer", "project": "vision"},
    "aud": {"role": "auditor"},
    "bob": {"role": "member", "project": "speech"},
    "nob": None,
}
_TOKEN = re.compile(r'name="form_token" value="([0-9a-f]*)"')


class Browser:
    """A client that speaks as one person, keeps cookies and fills in forms. It follows no redirect."""

    def __init__(self, app: Any, secret: str | None, lang: str = "en") -> None:
        self.client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
        self.client.headers["Accept"] = "text/html"
        self.client.headers["Accept-Language"] = lang
        if secret is not None:
            self.client.cookies.set(SESSION, secret)

    def get(self, path: str, **headers: str) -> httpx.Response:
        """A page."""
        found: httpx.Response = self.client.get(path, headers=_headers(headers))
        return found

    def token(self, path: str) -> str:
        """The token of the forms on a page."""
        found = _TOKEN.search(self.get(path).text)
        assert found is not None, f"no form on {path}"
        return found[1]

    def post(self, path: str, form: dict[str, str], *, on: str = "/", **headers: str) -> httpx.Response:
        """Send a form that stands on the page `on`."""
        data = {"form_token": self.token(on), **form}
        found: httpx.Response = self.client.post(path, data=data, headers=_headers(headers))
        return found


def _headers(given: dict[str, str]) -> dict[str, str]:
    return {key.replace("_", "-"): value for key, value in given.items()}


class ConsoleHouse:
    """API and console over one store, and a browser for each person by name; `None` is a visitor."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.services = Services.over(store, desk=Desk(store, SnapshotSource()))
        self.app = create_door(self.services)
        self.admin_password = first_start(store) or ""
        apply(store, *SMALL_HOUSE)
        for name, binding in PEOPLE.items():
            create_user(store, SYSTEM, name)
            if binding is not None:
                apply(store, doc("Binding", name, user=name, **binding))
        self.secrets = {
            name: create_token(store, SYSTEM, "test", user=name).secret for name in ["admin", *PEOPLE]
        }

    def as_(self, name: str | None, lang: str = "en") -> Browser:
        """A browser in which this person is signed in."""
        return Browser(self.app, None if name is None else self.secrets[name], lang)

    def anew(self, name: str | None) -> Browser:
        """The same with a credential of its own, for what ends it."""
        secret = None if name is None else create_token(self.store, SYSTEM, "test", user=name).secret
        return Browser(self.app, secret)

    def close(self) -> None:
        """Let go."""
        self.services.attempts.close()


#: Who looks at the pages of a whole control plane.
READERS = {
    "root": {"role": "administrator"},
    "ann": {"role": "member", "project": "detect"},
    "vic": {"role": "viewer", "project": "detect"},
    "bob": {"role": "member", "project": "translate"},
}


class Pages:
    """A whole control plane on a virtual clock, its console, and a browser for each reader."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.services = Services.over(house.store, desk=house.desk, engines=house.engines)
        self.app = create_door(self.services)
        self.secrets = {}
        for name, binding in READERS.items():
            create_user(house.store, SYSTEM, name)
            apply(house.store, doc("Binding", name, user=name, **binding))
            self.secrets[name] = create_token(house.store, SYSTEM, "test", user=name).secret

    def as_(self, name: str, lang: str = "en") -> Browser:
        """A browser in which this reader is signed in."""
        return Browser(self.app, self.secrets[name], lang)

    def close(self) -> None:
        """Let go; the books must add up."""
        self.services.attempts.close()
        self.house.close()


def names(text: str) -> list[str]:
    """Names of the rows of a list of workloads."""
    return re.findall(r'<th scope="row"><a href="/workloads/wl_\w+" translate="no">([^<]*)</a>', text)

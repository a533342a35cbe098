"""The console over a control plane on a virtual clock: devices, and what runs on them, waits, has ended."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from steelyard.api.context import Services
from steelyard.bootstrap import create_door
from steelyard.identity.actor import SYSTEM
from steelyard.model.errors import RefusedError
from steelyard.services.keys import open_log_key
from steelyard.services.sessions import create_token
from steelyard.services.users import create_user
from steelyard.store.database import sqlite_url
from tests.support.console import Browser
from tests.support.house import House
from tests.support.stores import apply, doc

GPU = {"cpu": "1", "memory": "4Gi", "gpu": 1}
PEOPLE = {
    "root": {"role": "administrator"},
    "aud": {"role": "auditor"},
    "ann": {"role": "member", "project": "detect"},
    "tom": {"role": "member", "project": "translate"},
}


class Floor:
    """The house, the app over it, and a browser for each of `PEOPLE`. Ids of workloads by name."""

    def __init__(self, folder: Path) -> None:
        self.house = House(sqlite_url(folder), folder)
        store = self.house.store
        self.services = Services.over(
            store, desk=self.house.desk, engines=self.house.engines, signer=open_log_key(store, folder)
        )
        self.app = create_door(self.services)
        for name, binding in PEOPLE.items():
            create_user(store, SYSTEM, name)
            apply(store, doc("Binding", name, user=name, **binding))
        self.secrets = {name: create_token(store, SYSTEM, "test", user=name).secret for name in PEOPLE}
        self.ids: dict[str, str] = {}

    def fill(self) -> Floor:
        """Two run, one of each project; one has ended; one waits; one was refused."""
        house = self.house
        self.submit("short", expect={"run": "20ms"})
        house.run_until(lambda: house.phase(self.ids["short"]) == "finished")
        self.submit("detector", requests={**GPU, "gpu": 4}, expect={"run": "forever"})
        self.submit("translator", "translate-dev", expect={"run": "forever"})
        self.submit("eager", requests={**GPU, "gpu": 4}, count=2)
        house.run_until(
            lambda: {house.phase(self.ids[name]) for name in ("detector", "translator")} == {"running"}
        )
        house.tick(3)
        with contextlib.suppress(RefusedError):
            house.submit("greedy", namespace="translate-dev", requests={**GPU, "gpu": 3})
        return self

    def submit(self, name: str, namespace: str = "detect-dev", **spec: Any) -> None:
        """Submit a one-role workload that asks for a GPU, if nothing else is said."""
        self.ids[name] = self.house.submit(name, namespace=namespace, **{"requests": GPU, **spec})

    def as_(self, name: str, lang: str = "en") -> Browser:
        """A browser in which this person is signed in."""
        return Browser(self.app, self.secrets[name], lang)

    def devices(self) -> list[dict[str, Any]]:
        """Every device as the administrator sees it."""
        client = self.as_("root").client
        headers = {"Authorization": f"Bearer {self.secrets['root']}", "Accept": "*/*"}
        found = client.get("/v1/inventory", headers=headers).json()
        return [device for node in found["items"] for device in node["devices"]]

    def close(self) -> None:
        """Let go."""
        self.services.attempts.close()
        self.house.close()

"""A store of the test's own, on both databases, with a clock that the test moves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.identity.actor import SYSTEM
from steelyard.services import declared
from steelyard.services.declared_step import Applied
from steelyard.services.documents import parse_documents
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store

T0 = 1_750_000_000_000_000


class Clock:
    """µs UTC; stands still until the test moves it."""

    def __init__(self, at: int = T0) -> None:
        self.at = at

    def __call__(self) -> int:
        """The time."""
        return self.at

    def forward(self, micros: int) -> None:
        """Let time pass."""
        self.at += micros


@pytest.fixture
def clock() -> Clock:
    """A clock for the store."""
    return Clock()


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path, clock: Clock) -> Iterator[Store]:
    """An open store with its writer running."""
    if request.param == "sqlite":
        url = sqlite_url(tmp_path)
    else:
        url = request.getfixturevalue("postgresql_database")
    opened = Store(url, clock)
    opened.start()
    yield opened
    opened.close()


def doc(kind: str, name: str, /, **spec: Any) -> dict[str, Any]:
    """A declared document."""
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def apply(store: Store, *documents: dict[str, Any], **options: Any) -> list[Applied]:
    """Applied as the system itself."""
    return declared.apply(store, SYSTEM, parse_documents(list(documents)), **options)


#: Two teams with a project and a namespace each, one queue, its routes.
SMALL_HOUSE = [
    doc("Cluster", "here", engine="local"),
    doc("Pool", "cores", cluster="here", flavors=[{"name": "plain", "class": "cpu"}]),
    doc("Team", "alpha"),
    doc("Team", "bravo"),
    doc("Project", "vision", team="alpha"),
    doc("Project", "speech", team="bravo"),
    doc("Namespace", "vision-dev", project="vision", environment="dev", costCentre="C 1"),
    doc("Namespace", "speech-dev", project="speech"),
    doc("PriorityClass", "normal", value=100),
    doc("PriorityClass", "high", value=1000),
    doc("Cohort", "all", limits=[{"class": "gpu", "nominal": 8}]),
    doc("Queue", "main", cohort="all", limits=[{"class": "gpu", "nominal": 4, "borrowingLimit": "500m"}]),
    doc("Quota", "vision", project="vision", limits=[{"class": "gpu", "hard": 2, "onExceed": "refuse"}]),
    doc(
        "Routing",
        "default",
        routes=[
            {"project": "vision", "kind": "inference", "queue": "main", "priorityClass": "high"},
            {"queue": "main", "priorityClass": "normal"},
        ],
    ),
]

"""A pytest plugin that writes down which tests claim which requirements: `--requirements-to FILE`.

Loaded by `tools/requirements.py` alone; `claims` is used by the house's own test, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

MARKER = "requirement"


def claims(items: Iterable[pytest.Item]) -> dict[str, list[str]]:
    """Requirement id → the tests that carry its marker, without their parameters, in order."""
    found: dict[str, set[str]] = {}
    for item in items:
        for marker in item.iter_markers(MARKER):
            for row in marker.args:
                found.setdefault(str(row), set()).add(item.nodeid.split("[", 1)[0])
    return {row: sorted(tests) for row, tests in sorted(found.items())}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that names the file."""
    parser.addoption("--requirements-to", metavar="FILE", help="write requirement → tests as JSON")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Writes the claims of what was collected."""
    target = session.config.getoption("--requirements-to")
    if target:
        Path(target).write_text(json.dumps(claims(session.items)), encoding="utf-8")

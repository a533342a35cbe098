"""Every engine there is, each in a place of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.engine_harness import HARNESSES, Harness


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """One engine."""
    made = HARNESSES[request.param](tmp_path)
    yield made
    made.close()

"""An engine with real processes, and the proof that a test left none behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.engines.local.engine import LocalEngine
from tests.support.local_engine import end_everything, make_local_engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """A local engine on a folder of this test's own."""
    made = make_local_engine(tmp_path)
    yield made
    end_everything(made)

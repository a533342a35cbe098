"""An engine with real processes, and the proof that a test left none behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.engines.local.engine import LocalEngine
from steelyard.engines.local.paths import Layout
from steelyard.engines.local.runner import Runner
from tests.support.local_engine import end_everything, make_local_engine


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LocalEngine]:
    """A local engine on a folder of this test's own."""
    made = make_local_engine(tmp_path)
    yield made
    end_everything(made)


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A supervisor in this process that forks nothing as long as nobody takes its turns."""
    layout = Layout(str(tmp_path / "data"))
    layout.make()
    lock = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    made = Runner(layout, lock, 60.0)
    yield made
    made.selector.close()
    os.close(lock)

"""A house with devices and a desk to submit at, for each test."""

from __future__ import annotations

import pytest

from steelyard.services.workloads import Desk
from steelyard.store.store import Store
from tests.support.worlds import build


@pytest.fixture
def desk(store: Store) -> Desk:
    """A desk over a declared house."""
    return build(store)

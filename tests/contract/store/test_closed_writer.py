"""A writer that is closed: nobody waits for what will never be written."""

from __future__ import annotations

import pytest

from steelyard.model.errors import UnavailableError
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.store.writer import SYSTEM


def test_a_unit_that_comes_after_the_end_is_turned_away_at_once(store: Store) -> None:
    store.writer.close()
    with pytest.raises(UnavailableError) as told:
        store.writer.submit(Unit(SYSTEM)).result(timeout=30)
    assert told.value.code == "database-failed"

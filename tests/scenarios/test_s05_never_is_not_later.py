"""S-05: what can never fit is told apart from what waits, and said at submit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.model.errors import RefusedError
from steelyard.store.database import sqlite_url
from tests.support.explained import LONG, asks, fill, told
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("E13")
def test_more_than_a_node_or_the_quota_could_ever_give_is_refused_at_submit(house: House) -> None:
    for spec, code in ((asks(5), "exceeds-capacity"), (asks(64), "exceeds-max-quota")):
        with pytest.raises(RefusedError) as refused:
            house.submit("never", requests=spec)
        assert code in {reason.code for reason in refused.value.reasons}


def test_what_may_fit_later_waits_with_who_has_to_end(house: House) -> None:
    fill(house)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    house.tick()
    answer = told(house, waits)
    assert answer["decision"] == "waits"
    assert "wait-for" in {remedy["kind"] for remedy in answer["remedies"]}

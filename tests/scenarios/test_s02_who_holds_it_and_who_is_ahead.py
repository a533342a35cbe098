"""S-02: who is ahead, who holds what is missing, and what would start it now; others stay nameless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard import locale
from steelyard.store.database import sqlite_url
from tests.support.explained import LONG, MEMBER, asks, compared, fill, told
from tests.support.house import House


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """Two nodes of four devices."""
    made = House(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


@pytest.mark.requirement("E5")
def test_the_holders_are_named_and_sum_to_the_shortfall(house: House) -> None:
    mine, other = fill(house)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    house.tick()
    answer = told(house, waits)
    short = [reason for reason in answer["reasons"] if reason["short_by"]]
    assert short
    for reason in short:
        assert sum(holder["amount"] for holder in reason["holders"]) == reason["short_by"]
    named = {holder["id"] for reason in short for holder in reason["holders"]}
    assert named & {mine, other}


@pytest.mark.requirement("J4", "J12")
def test_what_is_told_to_start_it_does_start_it(house: House) -> None:
    fill(house, 4, 2)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    house.tick()
    remedies = {remedy["kind"]: remedy for remedy in told(house, waits)["remedies"]}
    fewer = remedies["fewer-devices"]
    assert (fewer["resource"], fewer["before"], fewer["after"]) == ("gpu", 4000, 2000)
    house.cancel(waits)
    again = house.submit("again", requests=asks(fewer["after"] // 1000), expect=LONG)
    house.tick()
    assert house.phase(again) in ("starting", "running")


@pytest.mark.requirement("J12")
def test_a_member_reads_no_name_of_another_project_and_an_operator_does(house: House) -> None:
    _, other = fill(house, 4, 1)
    rest = house.submit("rest", requests=asks(3), expect=LONG, preemptible=False)
    house.run_until(lambda: house.phase(rest) == "running")
    ahead = house.submit("zz-ahead", namespace="translate-dev", requests=asks(1), expect=LONG)
    waits = house.submit("waits", requests=asks(4), expect=LONG)
    house.tick()
    for reader, sees in ((MEMBER, False), (None, True)):
        answer = told(house, waits, reader) if reader else told(house, waits)
        said = json.dumps(answer) + "".join(
            locale.reason_text(reason, lang) for reason in answer["reasons"] for lang in ("zh", "en")
        )
        hidden = [word for word in ("zz-secret", "zz-ahead", "translate", other, ahead) if word in said]
        assert bool(hidden) is sees, hidden
    with pytest.raises(Exception, match="not-found"):
        compared(house, waits, other, MEMBER)


@pytest.mark.requirement("E4")
def test_why_one_is_before_another_is_told_by_the_factor_that_decides(house: House) -> None:
    fill(house)
    first = house.submit("first", requests=asks(4), expect=LONG)
    second = house.submit("second", requests=asks(4), expect=LONG)
    urgent = house.submit("urgent", requests=asks(4), count=2, expect=LONG, priorityClass="high")
    house.tick()
    by_time, by_band = compared(house, first, second), compared(house, second, urgent)
    assert by_time["first"] == first
    assert by_time["factors"][-1]["name"] == "time"
    assert by_band["first"] == urgent
    assert (by_band["factors"][-1]["name"], by_band["factors"][-1]["b"]) == ("band", 100)
    answer = told(house, second)
    assert [(each["name"], each["by"]["name"]) for each in answer["ahead"]] == [
        ("urgent", "band"), ("first", "time"),
    ]  # fmt: skip
    assert answer["position"] == 3

"""A workload's story as a picture: every stage has its place, on the reader's clock, within bounds."""

from __future__ import annotations

import re
from typing import Any

import pytest

from steelyard.console.speech import Speech, zone_names
from steelyard.console.story import MAX_ATTEMPTS, MAX_MEMBERS, story
from steelyard.model.units import SECOND

T0 = 1_800_000_000_000_000


def attempt(number: int = 1, members: int = 1, waits: int = 1) -> dict[str, Any]:
    at = T0 + number * 10 * SECOND
    times = {"submitted": at, "placed": at + waits, "release_confirmed": at + 9 * SECOND}
    device = {"class": "gpu", "quantity": 1000, "model": "A100", "t0": at + waits, "t1": at + 9 * SECOND}
    return {
        "number": number,
        "cluster": "sim",
        "simulated": True,
        "outcome": "failed",
        "times": times,
        "waits": [{"reason": "quota", "t0": at + n, "t1": at + n + 1} for n in range(waits)],
        "tiles": [{"state": "running", "t0": at + waits, "t1": at + 9 * SECOND}],
        "members": [
            {"role": "<b>", "index": index, "node": "n-0", "devices": [device]} for index in range(members)
        ],
    }


def drawn(*attempts: dict[str, Any], zone: str = "UTC") -> str:
    return str(story({"name": "w", "attempts": list(attempts)}, Speech("en", zone), T0 + 100 * SECOND))


def test_stages_waits_and_what_members_hold_have_their_tiles() -> None:
    picture = drawn(attempt())
    for fill in ("f-s-waiting", "f-s-running", "f-held-by"):
        assert f'class="{fill}"' in picture
    assert "Attempt 1 – sim (simulated)" in picture
    assert "&lt;b&gt;/0" in picture


def test_there_is_no_picture_before_anything_happened() -> None:
    assert story({"name": "w", "attempts": []}, Speech("en"), T0) is None


def test_what_still_waits_is_drawn_until_now() -> None:
    waiting = attempt()
    waiting["times"] |= {"placed": None, "release_confirmed": None}
    waiting |= {"waits": [], "tiles": [], "members": [], "outcome": None}
    assert 'class="f-s-waiting"' in drawn(waiting)


@pytest.mark.parametrize(
    ("zone", "hour"), [("UTC", "08"), ("Asia/Shanghai", "16"), ("America/New_York", "03")]
)
def test_the_axis_is_the_readers_clock(zone: str, hour: str) -> None:
    if zone not in zone_names():
        pytest.skip("this machine has no table of time zones")
    ticks = re.findall(r'class="tick [a-z]+">(\d\d):', drawn(attempt(), zone=zone))
    assert ticks
    assert set(ticks) == {hour}


def test_many_attempts_members_and_waits_keep_the_picture_small() -> None:
    picture = drawn(*(attempt(number, members=500, waits=2000) for number in range(1, 40)))
    assert picture.count('class="f-held-by"') <= MAX_ATTEMPTS * MAX_MEMBERS + 1
    assert len(picture) < 100_000
    assert "and 484 more members" in picture

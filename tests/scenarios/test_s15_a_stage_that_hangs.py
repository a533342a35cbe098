"""S-15: a stage that hangs is ended by its timer, says which stage it was, and gives its devices back."""

from __future__ import annotations

from pathlib import Path

from steelyard.model.lifecycle import RULES, Phase
from steelyard.model.units import MINUTE
from steelyard.store.database import sqlite_url
from tests.support.house import DOCUMENTS, House

ALL = {"gpu": 4, "cpu": "1", "memory": "1Gi"}


def test_an_image_that_never_comes_holds_its_devices_no_longer_than_the_timer(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path, DOCUMENTS.replace("image: 10ms", "image: 3h", 1))
    try:
        stuck = [house.submit(f"stuck{number}", requests=ALL, maxAttempts=1) for number in range(2)]
        house.run_until(lambda: all(house.phase(each) == "starting" for each in stuck))
        behind = house.submit("behind", requests=ALL)
        placed = house.show(stuck[0])["attempts"][0]["times"]["placed"]
        house.run_until(lambda: all(house.phase(each) == "finished" for each in stuck), step=MINUTE)
        for each in stuck:
            page = house.show(each)
            assert page["verdict"]["code"] == "start-timeout"
            assert page["verdict"]["stage"] == "image"
            limit = RULES[Phase.STARTING].timer or 0
            assert page["attempts"][0]["times"]["stopping"] - placed <= limit + 2 * MINUTE
        house.run_until(lambda: house.phase(behind) == "starting", step=MINUTE)
    finally:
        house.close()

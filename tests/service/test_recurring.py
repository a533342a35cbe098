"""Recurring failures: grouped, ranked, and seen by who may see them; on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from steelyard.model.errors import InvalidError, SteelyardError
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.services import failures
from steelyard.store.database import sqlite_url
from steelyard.store.failed import FailureFilter
from tests.support.house import ADMIN, DOCUMENTS, House

TIMING = "release: 10ms}\n"
SUFFER = "    suffer:\n    - {fault: image-failure, match: {name: picture}}\n"
ONE = {"cpu": "1", "memory": "1Gi", "gpu": 1}
TRANSLATOR = Principal(
    "us_0000000000002", "user", "tom", (Binding("tom", RoleName.MEMBER, "translate", 1),)
)
NOBODY = Principal("us_0000000000003", "user", "nob", ())


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A house in which some failed: 3 × exit 3 and 1 × exit 4 of one project, an image, refusals."""
    url = sqlite_url(tmp_path)
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql_database")
    made = House(url, tmp_path, DOCUMENTS.replace(TIMING, TIMING + SUFFER, 1))
    for code in ("3", "3", "3", "4"):
        made.submit("own", requests=ONE, expect={"run": "1s", "exit": code}, restart="never")
    made.submit("picture", requests=ONE, restart="never")
    made.submit("picture", requests=ONE, namespace="translate-dev", restart="never")
    made.submit("fine", requests=ONE)
    stopped = made.submit("stopped", requests=ONE, expect={"run": "forever"})
    for _ in range(2):
        with pytest.raises(SteelyardError):
            made.submit("greedy", requests={"gpu": 4, "cpu": "1"}, namespace="translate-dev")
    made.run_until(lambda: made.phase(stopped) == "running")
    made.cancel(stopped)
    made.run_dry()
    yield made
    made.close()


def recurring(house: House, who: Principal = ADMIN, order: str = "count", **wanted: Any) -> dict[str, Any]:
    return failures.recurring(house.store, who, FailureFilter(**wanted), order=order)


def brief(found: dict[str, Any]) -> list[tuple[str, int]]:
    return [(item["verdict"]["code"], item["count"]) for item in found["items"]]


@pytest.mark.requirement("F7", "F9", "L16")
def test_failures_of_one_kind_are_one_group_and_the_most_frequent_is_first(house: House) -> None:
    found = recurring(house)
    assert brief(found)[0] == ("exit-code", 3)
    assert sorted(brief(found)[1:]) == [("exceeds-max-quota", 2), ("exit-code", 1), ("image-not-found", 2)]
    assert found["by_stage"] == {"application": 4, "image": 2}
    assert (found["failures"], found["refusals"], found["groups"]) == (6, 2, 4)
    top = found["items"][0]
    assert top["lost_time"] >= 3_000_000
    assert (top["simulated"], top["workloads"]) == (True, 3)
    assert (found["lost_time"], found["simulated_lost_time"] >= top["lost_time"]) == (0, True)
    assert top["newest"]["name"] == "own"
    image = next(item for item in found["items"] if item["verdict"]["code"] == "image-not-found")
    assert {one["project"]: one["count"] for one in image["projects"]} == {"detect": 1, "translate": 1}


@pytest.mark.requirement("I6")
def test_only_the_failures_of_one_s_own_projects_are_seen_and_counted(house: House) -> None:
    found = recurring(house, TRANSLATOR)
    assert sorted(brief(found)) == [("exceeds-max-quota", 2), ("image-not-found", 1)]
    image = next(item for item in found["items"] if item["kind"] == "attempt")
    assert image["projects"] == [{"project": "translate", "count": 1}]
    assert (image["newest"]["project"], found["by_stage"]) == ("translate", {"image": 1})
    assert recurring(house, NOBODY)["items"] == []


def test_groups_are_narrowed_and_ordered(house: House) -> None:
    assert brief(recurring(house, stage="image")) == [("image-not-found", 2)]
    assert {code for code, _ in brief(recurring(house, group="business"))} == {"exit-code"}
    assert {code for code, _ in brief(recurring(house, group="scheduling"))} == {"exceeds-max-quota"}
    assert brief(recurring(house, project="translate", stage="image")) == [("image-not-found", 1)]
    lost = [item["lost_time"] for item in recurring(house, order="lost-time")["items"]]
    assert lost == sorted(lost, reverse=True)
    assert recurring(house, end=1)["items"] == []


def test_a_wrong_document_is_a_matter_of_the_request_and_not_of_scheduling(house: House) -> None:
    with pytest.raises(InvalidError):
        house.submit("wrong", requests={"gpu": "many"})
    (item,) = recurring(house, group="request")["items"]
    assert (item["kind"], item["verdict"]["code"]) == ("refusal", "invalid-request")
    assert (item["verdict"]["group"], item["verdict"]["action"]) == ("request", "correct-request")
    assert {code for code, _ in brief(recurring(house, group="scheduling"))} == {"exceeds-max-quota"}


@pytest.mark.parametrize(
    ("order", "wanted"),
    [("worst", {}), ("count", {"stage": "nowhere"}), ("count", {"group": "x"}), ("count", {"end": 0})],
)
def test_what_there_is_not_is_refused(tmp_path: Path, order: str, wanted: dict[str, Any]) -> None:
    made = House(sqlite_url(tmp_path), tmp_path)
    try:
        with pytest.raises(InvalidError):
            recurring(made, order=order, **wanted)
    finally:
        made.close()

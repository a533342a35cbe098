"""S-37: a quota cut under running work is seen before it is made: what is over, who waits, who stops."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from steelyard.model.lifecycle import Phase
from steelyard.model.units import SECOND
from steelyard.services import declared, what_if
from steelyard.services.documents import parse_documents
from steelyard.services.live_load import SnapshotSource
from steelyard.services.policy_preview import policy_preview
from steelyard.store.database import sqlite_url
from tests.service.control.test_replay import replay_all
from tests.support.console import Pages
from tests.support.frozen import FrozenHouse
from tests.support.house import ADMIN

SAYS = """
kind: Queue
metadata: {name: main}
spec:
  cohort: all
  owner: platform
  limits: [{class: gpu, nominal: "2", borrowingLimit: 0, EFFECT}]
"""
CUT = """
kind: Queue
metadata: {name: main}
spec: {cohort: all, owner: platform, limits: [{class: gpu, nominal: "2", borrowingLimit: 0}]}
"""


@pytest.fixture
def house(tmp_path: Path) -> Iterator[FrozenHouse]:
    made = FrozenHouse(sqlite_url(tmp_path), tmp_path)
    yield made
    made.close()


def documents() -> list[Any]:
    """The cut, as documents."""
    return list(yaml.safe_load_all(CUT))


@pytest.mark.requirement("J9")
def test_what_the_cut_then_does_is_what_was_told(house: FrozenHouse) -> None:
    runs = house.submit("runs", requests={"cpu": "1", "memory": "1Gi", "gpu": 4}, expect={"run": "600s"})
    house.run_until(lambda: house.phase(runs) == "running")
    house.freeze()
    told = what_if.ask(house.desk, ADMIN, [{"documents": documents()}])
    before = house.phases()
    house.apply(CUT)
    house.decide()
    changed = {row["id"]: row["after"] for row in told["changed"]}
    stops = {name for name, phase in house.phases().items() if phase is Phase.STOPPING}
    assert stops == {name for name, after in changed.items() if after == "evicted"}
    assert house.phases().keys() == before.keys()
    house.thaw()


def test_what_runs_above_the_cut_and_who_would_have_waited_longer_is_told(house: FrozenHouse) -> None:
    for name in ("one", "two"):
        house.submit(name, requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "3s"})
        house.tick(3, step=50_000)
    middle = house.clock()
    house.submit("three", requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "3s"})
    house.run_dry()
    house.tick(3, step=4_000_000)
    found = policy_preview(house.store, ADMIN, SnapshotSource(), documents(), since=middle)
    (over,) = [row for row in found["over_quota"] if row["node"] == "main"]
    assert (over["used"], over["limit"], over["over"]) == (4000, 2000, 2000)
    assert [row["name"] for row in found["later"]["items"]] == ["three"]
    assert found["reproduced"] == {"starts": 1, "same": 1}


# --- what the limit itself says ----------------------------------------------------------------------------
def says(effect: str) -> str:
    """The cut, with what becomes of the work above it."""
    return SAYS.replace("EFFECT", effect)


def two_of_two(house: FrozenHouse) -> list[str]:
    """Two workloads of two devices each that run, one after the other."""
    found = []
    for name in ("first", "second"):
        found.append(
            house.submit(name, requests={"cpu": "1", "memory": "1Gi", "gpu": 2}, expect={"run": "900s"})
        )
        house.run_until(lambda: house.phase(found[-1]) == "running")
    return found


def warned(house: FrozenHouse, document: str) -> dict[str, Any]:
    """What a dry run of an apply says of the limit."""
    results = declared.apply(
        house.store, ADMIN, parse_documents(list(yaml.safe_load_all(document))), dry_run=True
    )
    found = [each for result in results for each in result.warnings if each.params["node"] == "main"]
    assert len(found) == 1
    return {"code": found[0].code, **found[0].params}


@pytest.mark.requirement("J9")
def test_reclaim_is_told_before_and_then_done_and_replays(house: FrozenHouse) -> None:
    first, second = two_of_two(house)
    cut = says("onLowered: Reclaim")
    told = warned(house, cut)
    assert (told["code"], told["effect"], told["over"]) == ("quota-below-use-leaves", "Reclaim", 2000)
    assert (told["names"], told["workloads"], told["stays"]) == ("second", 1, None)
    (row,) = what_if.ask(house.desk, ADMIN, [{"documents": list(yaml.safe_load_all(cut))}])["lowered"]
    assert [gone["id"] for gone in row["leaving"]] == [second]
    assert (row["over"], row["stays"], row["effect"]) == (2000, 0, "Reclaim")
    house.apply(cut)
    house.run_until(lambda: house.phase(second) == "queued")
    assert house.phase(first) == "running"
    (eviction,) = house.show(second)["evictions"]
    assert (eviction["rule"], eviction["preemptor"], eviction["goes_to"]) == ("limit-lowered", None, "main")
    assert eviction["limit"] == {
        "tree": "queue", "node": "main", "subject": "gpu", "limit": 2000, "used": 4000
    }  # fmt: skip
    assert replay_all(house)["evictions"] == 1


@pytest.mark.requirement("J9")
def test_drain_gives_its_time_from_the_change_on_and_over_a_restart(house: FrozenHouse) -> None:
    first, second = two_of_two(house)
    cut = says("onLowered: Drain, drainFor: 120s")
    due = house.clock() + 120 * SECOND
    told = warned(house, cut)
    assert (told["effect"], told["names"]) == ("Drain", "second")
    assert abs(told["first"] - due) < SECOND
    house.apply(cut)
    house.tick(3)
    house.clock.advance(100 * SECOND)
    house.restart()
    house.tick(3)
    assert {house.phase(first), house.phase(second)} == {"running"}, "its time is not over"
    assert warned(house, says("onLowered: Reclaim"))["names"] == "second", "who would leave sooner is told"
    house.clock.advance(21 * SECOND)
    house.run_until(lambda: house.phase(second) == "queued", most=200)
    assert house.phase(first) == "running"
    assert replay_all(house)["evictions"] == 1


@pytest.mark.requirement("J9")
def test_without_a_word_what_runs_goes_on(house: FrozenHouse) -> None:
    first, second = two_of_two(house)
    assert warned(house, CUT)["code"] == "quota-below-use"
    house.apply(CUT)
    house.tick(5, step=10 * SECOND)
    assert {house.phase(first), house.phase(second)} == {"running"}


# --- a gang that goes on with fewer ------------------------------------------------------------------------
def four_of_four(house: FrozenHouse) -> str:
    """An elastic gang of four devices that runs on all it asked for, and needs one."""
    gang = house.submit(
        "gang", count=4, min=1, requests={"cpu": "1", "memory": "1Gi", "gpu": 1}, expect={"run": "900s"}
    )
    house.run_until(lambda: house.phase(gang) == "running")
    return gang


@pytest.mark.requirement("J9")
def test_of_a_gang_that_goes_on_the_members_that_leave_are_told_and_no_more(house: FrozenHouse) -> None:
    gang = four_of_four(house)
    told = what_if.ask(
        house.desk, ADMIN, [{"documents": list(yaml.safe_load_all(says("onLowered: Reclaim")))}]
    )
    (row,) = told["lowered"]
    (gone,) = row["leaving"]
    fewer = {"members": [{"role": "main", "index": 3}, {"role": "main", "index": 2}],
             "had": 4, "goes_on_with": 2}  # fmt: skip
    assert (gone["id"], gone["quantity"], {key: gone[key] for key in fewer}) == (gang, 2000, fewer)
    (changed,) = told["changed"]
    assert changed["after"] == "shrinks"
    assert {key: changed["evicted_for"][key] for key in fewer} == fewer


@pytest.mark.parametrize(
    ("lang", "says_so"),
    [("en", "main/3, main/2 of its 4 members leave, 2 go on"),
     ("zh", "4 个成员中的 main/3, main/2 离开，其余 2 个继续运行")],
)  # fmt: skip
def test_the_page_of_what_if_names_the_members_that_leave(
    house: FrozenHouse, lang: str, says_so: str
) -> None:
    four_of_four(house)
    form = {"document": says("onLowered: Reclaim")}
    page = Pages(house).as_("root", lang).post("/what-if", form).text
    assert page.count(says_so) == 2, "of the workload whose fate differs, and of the limit"


def test_a_preview_tells_a_gang_that_gives_up_members_apart_from_evictions(house: FrozenHouse) -> None:
    gang = four_of_four(house)
    since = house.clock()
    house.submit("other", requests={"cpu": "1", "memory": "1Gi", "gpu": 1}, expect={"run": "1s"})
    house.tick(20, step=500_000)
    cut = list(yaml.safe_load_all(says("onLowered: Reclaim")))
    found = policy_preview(house.store, ADMIN, SnapshotSource(), cut, since=since)
    assert (found["evictions"]["count"], found["new"]["evictions"]) == (0, 0)
    assert (found["shrinks"]["count"], found["old"]["shrinks"], found["new"]["shrinks"]) == (1, 0, 1)
    (row,) = found["shrinks"]["items"]
    assert (row["id"], row["rule"], row["for"]) == (gang, "limit-lowered", None)
    assert [(one["role"], one["index"]) for one in row["members"]] == [("main", 3), ("main", 2)]
    assert (row["had"], row["goes_on_with"], row["limit"]["node"]) == (4, 2, "main")

"""The inventory's pages: what they show of devices and holders, to whom, and how they are narrowed."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from steelyard.console.cells import look_of
from steelyard.model.ids import parse
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.reports.drawing.stacked import borders, clip, steps
from steelyard.services.census import Wanted
from steelyard.services.device_past import device_past
from steelyard.services.fleet import fleet
from steelyard.services.inventory import PARTS
from tests.support.console_floor import Floor
from tests.support.house import ADMIN, START

ROW = re.compile(r"<tr>\s*<th scope=\"row\">(.*?)</tr>", re.DOTALL)


def held_by(floor: Floor, name: str) -> str:
    """The id of a device that this workload holds."""
    return next(
        str(device["id"])
        for device in floor.devices()
        if device["class"] == "gpu" and any(holder["name"] == name for holder in device["holders"])
    )


def test_every_device_is_a_cell_or_a_gauge_and_a_link(floor: Floor) -> None:
    page = floor.as_("root").get("/inventory").text
    for device in floor.devices():
        assert f'href="/devices/{device["id"]}"' in page
    assert page.count('class="cell l-held"') == 5 + 1  # and one in the legend
    assert "8 devices" not in page
    assert "14 devices on 3 nodes" in page


@pytest.mark.requirement("B17", "B5")
def test_the_parts_of_each_class_sum_to_its_capacity_on_the_page(floor: Floor) -> None:
    page = floor.as_("root").get("/inventory").text
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in ROW.findall(page)]
    gpus = next(row for row in rows if row[0] == "GPU")
    assert [int(part) for part in gpus[-6:]] == [8, 5, 3, 0, 0, 0]


@pytest.mark.parametrize(
    ("query", "cells"),
    [("class=gpu", 8), ("class=cpu", 0), ("state=free&class=gpu", 3), ("state=held&class=gpu", 5),
     ("cluster=other", 0), ("pool=accelerators", 8), ("state=unknown", 0), ("cluster=<b>", 0)],
)  # fmt: skip
def test_the_map_is_narrowed_by_cluster_class_pool_and_state(floor: Floor, query: str, cells: int) -> None:
    page = floor.as_("root").get(f"/inventory?{query}").text
    assert page.count('<svg viewBox="0 0 26 26"') - 7 == cells
    assert "<b>" not in page


def test_what_is_no_value_of_a_filter_narrows_nothing(floor: Floor) -> None:
    assert "14 devices on 3 nodes" in floor.as_("root").get("/inventory?class=tpu&state=x&page=-1").text


@pytest.mark.requirement("I5")
def test_holders_of_other_projects_have_an_amount_and_no_name(floor: Floor) -> None:
    theirs = held_by(floor, "translator")
    for place in ("/inventory", f"/devices/{theirs}"):
        page = floor.as_("ann").get(place).text
        assert "translator" not in page
        assert floor.ids["translator"] not in page
    assert "another project" in floor.as_("ann").get(f"/devices/{theirs}").text
    assert floor.ids["translator"] in floor.as_("tom").get(f"/devices/{theirs}").text


def test_a_device_shows_its_facts_with_their_provenance_and_who_held_it(floor: Floor) -> None:
    held = next(device for device in floor.devices() if device["class"] == "cpu" and device["holders"])
    page = floor.as_("ann").get(f"/devices/{held['id']}").text
    assert "simulated" in page
    assert "cluster-document" in page
    assert floor.ids["short"] in page, "who held it before"
    assert floor.ids["detector"] in page


def test_the_past_of_a_device_adds_up_to_its_capacity_at_each_instant(floor: Floor) -> None:
    for device in floor.devices():
        number = parse("device", device["id"])
        past = device_past(floor.house.store, ADMIN, number, START)
        assert past is not None
        groups = [*past.held.values(), *past.unheld.values()]
        marks = borders([*groups, past.capacity], *past.window)
        summed = steps([each for group in groups for each in clip(group, *past.window)], marks)
        assert summed == steps(clip(past.capacity, *past.window), marks)


def test_the_past_of_a_device_names_the_projects_that_the_reader_may_see(floor: Floor) -> None:
    ann = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    named: dict[str, set[str | None]] = {"admin": set(), "ann": set()}
    for device in floor.devices():
        for who in (ADMIN, ann):
            past = device_past(floor.house.store, who, parse("device", device["id"]), START)
            named[who.name] |= set(past.held) if past is not None else set()
    assert named == {"admin": {"detect", "translate"}, "ann": {"detect", None}}
    assert "The last 24 hours" in floor.as_("ann").get(f"/devices/{held_by(floor, 'translator')}").text


def test_a_device_is_found_by_its_name_in_its_cluster(floor: Floor) -> None:
    device = floor.devices()[0]
    assert floor.as_("ann").get(f"/devices/{device['cluster']}/{device['uid']}").status_code == 200


def test_a_node_shows_its_devices_and_their_holders(floor: Floor) -> None:
    page = floor.as_("ann").get("/inventory?class=gpu").text
    nodes = re.findall(r'href="(/nodes/nd_[0-9a-z]+)"', page)
    assert len(nodes) == 2
    shown = "".join(floor.as_("ann").get(node).text for node in nodes)
    assert "detector" in shown
    assert shown.count("A100") >= 8


def test_what_a_cluster_that_does_not_answer_holds_is_unknown_never_free(floor: Floor) -> None:
    floor.house.clock.advance(120_000_000)  # nobody observes meanwhile
    try:
        page = floor.as_("ann").get("/inventory").text
        assert "does not answer" in page
        assert page.count('class="cell l-unknown"') == 8 + 1
        assert 'class="cell l-free"' in page  # in the legend alone
        assert page.count('class="cell l-free"') == 1
    finally:
        floor.house.tick(2)


def test_nodes_are_paged_in_the_order_a_person_counts(floor: Floor) -> None:
    floor.house.apply("""
kind: Cluster
metadata: {name: wide}
spec: {engine: simulated, simulation: {nodes: [{count: 45, prefix: k, cpu: "4", memory: 8Gi}]}}
""")
    floor.house.tick(3)
    first = fleet(floor.house.store, ADMIN, Wanted(cluster="wide"), 1, 40)
    last = fleet(floor.house.store, ADMIN, Wanted(cluster="wide"), 99, 40)
    names = [node["name"] for node in (*first["nodes"], *last["nodes"])]
    assert (first["pages"], last["page"], len(names)) == (2, 2, 45)
    assert names.index("k-9") + 1 == names.index("k-10")
    page = floor.as_("ann").get("/inventory?cluster=wide&page=2").text
    assert "Page 2 of 2" in page
    assert 'href="/inventory?cluster=wide"' in page


def test_who_is_bound_nowhere_sees_no_device(floor: Floor) -> None:
    nobody = Principal("us_0000000000009", "user", "nob", ())
    with pytest.raises(Exception, match="missing-grant"):
        fleet(floor.house.store, nobody, Wanted(), 1, 40)
    ann = Principal("us_1", "user", "ann", (Binding("ann", RoleName.MEMBER, "detect", 1),))
    assert fleet(floor.house.store, ann, Wanted(), 1, 40)["nodes"]


@pytest.mark.parametrize(
    ("state", "reason", "parts", "look"),
    [("available", None, (0, 0, 0), "free"), ("available", None, (250, 0, 0), "part"),
     ("held", None, (1000, 0, 0), "held"), ("held", None, (0, 1000, 0), "reserved"),
     ("unavailable", "release-unconfirmed", (0, 0, 1000), "quarantined"),
     ("unavailable", "unhealthy", (0, 0, 1000), "unavailable"),
     ("unknown", "cluster-unreachable", (0, 0, 0), "unknown")],
)  # fmt: skip
def test_each_state_has_a_look_of_its_own(
    state: str, reason: str | None, parts: tuple[int, int, int], look: str
) -> None:
    named = dict(zip(("held", "reserved", "unavailable"), parts, strict=True))
    assert look_of({"state": state, "reason": reason, **named}) == look


@pytest.mark.requirement("B5")
def test_what_is_cordoned_is_down_with_who_and_why_and_comes_back(floor: Floor) -> None:
    browser = floor.as_("root")
    node = next(each for each in floor.devices() if each["class"] == "gpu")
    place = f"/devices/{node['id']}"
    assert f"/places/{node['id']}/cordon" in browser.get(place).text
    assert f"/places/{node['id']}/cordon" not in floor.as_("ann").get(place).text
    empty = browser.post(f"/places/{node['id']}/cordon", {"reason": " "}, on=f"/places/{node['id']}/cordon")
    assert empty.status_code == 422
    done = browser.post(f"/places/{node['id']}/cordon", {"reason": "fan is loud"})
    assert done.headers["location"] == f"{place}?done=cordon"
    floor.house.tick(2)
    try:
        down = browser.get("/inventory").text.split('id="down"')[1].split("</section>")[0]
        assert "cordoned" in down
        assert "fan is loud" in down
        assert node["uid"] in down
        assert "fan is loud" in browser.get("/flags").text
        narrowed = browser.get("/inventory?why=cordoned").text
        assert "1 devices on 1 nodes" in narrowed
        assert "fan is loud" in browser.get(f"{place}?of=flag").text
    finally:
        browser.post(f"/places/{node['id']}/uncordon", {"reason": "new fan"})
        floor.house.tick(2)
    history = browser.get(f"{place}?of=flag").text
    assert "new fan" in history
    assert "Every device answers" in browser.get("/inventory").text
    changes = browser.get("/inventory/changes?of=flag").text
    assert "new fan" in changes
    assert "as it was before" in changes


def test_a_drain_shows_who_would_leave_before_it_is_done(floor: Floor) -> None:
    held = held_by(floor, "detector")
    page = floor.as_("root").get(f"/places/{held}/drain").text
    assert floor.ids["detector"] in page
    assert floor.as_("root").get(f"/places/{held}/explode").status_code == 404


def test_the_past_is_marked_as_the_past_and_shows_who_held_what_then(floor: Floor) -> None:
    browser = floor.as_("root")
    offered = browser.get("/inventory/past").text
    assert 'T12:00"' in offered, "yesterday's noon"
    assert "This is the past" not in offered
    now = datetime.fromtimestamp(floor.house.store.now() // 1_000_000, UTC)
    floor.house.clock.advance(60_000_000)
    floor.house.tick(2)
    at = (now + timedelta(minutes=1)).strftime("%Y-%m-%dT%H:%M")
    page = browser.get(f"/inventory/past?at={at}&class=gpu&pool=accelerators").text
    assert "This is the past" in page
    assert "translator" in page
    assert "translator" not in floor.as_("ann").get(f"/inventory/past?at={at}").text
    assert browser.get("/inventory/past?at=2999-01-01T00:00").status_code == 422
    assert browser.get("/inventory/past?at=noon").status_code == 422


@pytest.mark.requirement("B17")
def test_the_sums_by_pool_and_the_devices_found_are_of_one_census(floor: Floor) -> None:
    found = fleet(floor.house.store, ADMIN, Wanted(device_class="gpu"), 1, 40)
    gpus = [row for row in found["groups"] if row["class"] == "gpu"]
    assert sum(row["devices"] for row in gpus) == found["device_count"] == 8
    for row in gpus:
        assert row["capacity"] == sum(row[part] for part in PARTS)
    taken = fleet(floor.house.store, ADMIN, Wanted(device_class="gpu", requestable=False), 1, 40)
    free = fleet(floor.house.store, ADMIN, Wanted(device_class="gpu", requestable=True), 1, 40)
    assert taken["device_count"] + free["device_count"] == 8
    assert fleet(floor.house.store, ADMIN, Wanted(why="held"), 1, 40)["device_count"] >= 5

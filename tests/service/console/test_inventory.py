"""The inventory's pages: what they show of devices and holders, to whom, and how they are narrowed."""

from __future__ import annotations

import re

import pytest

from steelyard.console.inventory import look_of
from steelyard.model.ids import parse
from steelyard.model.organisation import Binding, Principal, RoleName
from steelyard.reports.drawing.stacked import borders, clip, steps
from steelyard.services.device_past import device_past
from steelyard.services.fleet import Wanted, fleet
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

"""The pages of queues and refusals: trees, bars, counts that lead to lists, reasons, and who sees what."""

from __future__ import annotations

import re

import pytest

from steelyard.console.queues import _tree
from steelyard.reports.drawing.fleet import Bullet, bullet
from tests.support.console_floor import Floor


def test_a_queue_shows_what_it_owns_uses_and_could_have(floor: Floor) -> None:
    page = floor.as_("root").get("/queues").text
    assert "used 5 GPU · own 8 GPU · at most 8 GPU" in page
    assert "used, without a limit:" in page


def test_counts_lead_to_the_workloads_they_count(floor: Floor) -> None:
    browser = floor.as_("root")
    page = browser.get("/queues").text
    links = re.findall(r'href="(/workloads\?[^"]*queue=main[^"]*)">(\d+)<', page)
    assert sorted(int(number) for _, number in links) == [1, 2]
    for link, number in links:
        listed = browser.get(link.replace("&amp;", "&")).text
        assert len(set(re.findall(r'href="/workloads/(wl_[0-9a-z]+)"', listed))) == int(number)


@pytest.mark.requirement("I5", "J12")
def test_counts_and_quotas_are_those_of_the_readers_projects(floor: Floor) -> None:
    ann, tom = (floor.as_(name).get("/queues").text for name in ("ann", "tom"))
    assert "translate-dev" not in ann
    assert ">translate<" not in ann
    assert "detect-dev" not in tom
    assert "quota" in tom
    assert re.search(
        r"<td class=\"num wide-only\"[^>]*><a href=\"/workloads\?[^\"]*running[^\"]*\">1</a>", tom
    )


@pytest.mark.requirement("J4")
def test_a_refusal_is_shown_with_its_reason_to_its_project_and_to_nobody_else(floor: Floor) -> None:
    for place in ("/queues", "/refusals"):
        page = floor.as_("tom").get(place).text
        assert "greedy" in page
        assert re.search(r"quota|Quota", page)
        assert "greedy" not in floor.as_("ann").get(place).text


def test_what_waits_is_told_with_its_reason(floor: Floor) -> None:
    assert "waits for" in floor.as_("ann").get("/queues").text
    assert "Nothing waits." in floor.as_("tom").get("/queues").text


@pytest.mark.requirement("E4", "J12")
def test_a_queue_shows_who_is_next_and_by_what_and_names_only_the_readers_own(floor: Floor) -> None:
    page = floor.as_("root").get("/queues/main").text
    line = re.findall(r'href="/workloads/wl_[0-9a-z]+/explanation"[^>]*>([^<]+)<', page)
    assert line
    assert "Rules in force" in page
    assert "best effort" in page
    told = floor.as_("tom").get("/queues/main").text
    assert not re.findall(r"/workloads/wl_", told)
    assert "work of other projects" in told


def node(name: str, parent: str | None, kind: str = "queue", pending: int = 1) -> dict[str, object]:
    counts = {"pending": pending, "running": 0}
    return {"node": name, "name": name, "parent": parent, "kind": kind, "limits": [], **counts}


def test_a_tree_is_shown_from_its_roots_down_and_a_node_without_its_parent_at_the_edge() -> None:
    shown = _tree([node("b", "gone"), node("all", None, "cohort", 0), node("z", "all"), node("a", "all")])
    assert [(each["name"], each["depth"], each["pending"]) for each in shown] == [
        ("all", 0, 2), ("a", 1, 1), ("z", 1, 1), ("b", 0, 1),
    ]  # fmt: skip


def test_use_beyond_what_is_owned_is_drawn_apart() -> None:
    drawn = bullet(Bullet(used=6, nominal=4, potential=8), "words")
    assert 'class="b-used"' in drawn
    assert 'width="250" height="6" class="b-borrowed"' in drawn.replace('y="4" ', "")
    assert "b-borrowed" not in bullet(Bullet(used=4, nominal=4, potential=8), "words")
    assert "b-nominal" not in bullet(Bullet(used=4, nominal=None, potential=8), "words")

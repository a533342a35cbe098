"""The page of usage: windows in the reader's zone, sums that close, files of the same figures."""

from __future__ import annotations

import csv
import io
import re

import pytest

from steelyard.console.usage import _plain
from steelyard.console.usage_window import _start, instant, shift_of
from steelyard.model.errors import InvalidError
from steelyard.model.units import HOUR
from tests.support.console_floor import Floor
from tests.support.house import START

#: 2027-01-15 08:00:00 UTC.
NOON = START + 4 * HOUR


def exact(page: str, label: str) -> list[int]:
    """The exact sums in rows of this label, one a class."""
    rows = re.findall(rf"<tr><th scope=\"row\">{label}</th>(.*?)</tr>", page, re.DOTALL)
    return [int(re.findall(r"<code[^>]*>(\d+)</code>", row)[0]) for row in rows]


@pytest.mark.requirement("L23")
def test_the_sum_of_what_became_of_a_class_is_its_capacity(floor: Floor) -> None:
    page = floor.as_("root").get("/usage?span=all").text
    assert exact(page, "sum") == exact(page, "capacity × time")
    assert len(exact(page, "sum")) == 3
    assert page.count("does not close") == 0
    assert page.count("</svg>closes") == 4


@pytest.mark.requirement("L8")
@pytest.mark.parametrize(("by", "label"), [("project", "detect"), ("kind", "training"), ("team", "vision")])
def test_held_is_told_apart_as_chosen(floor: Floor, by: str, label: str) -> None:
    assert f">{label}</span></th>" in floor.as_("root").get(f"/usage?span=all&by={by}").text or (
        f"</svg> {label}</th>" in floor.as_("root").get(f"/usage?span=all&by={by}").text
    )


def test_submitters_are_told_by_name(floor: Floor) -> None:
    role = {"name": "main", "command": ["x"], "requests": {"cpu": 1}, "expect": {"run": "forever"}}
    document = {
        "kind": "Workload",
        "metadata": {"name": "of-ann", "namespace": "detect-dev"},
        "spec": {"kind": "batch", "roles": [role]},
    }
    headers = {"Authorization": f"Bearer {floor.secrets['ann']}"}
    answer = floor.as_("ann").client.post("/v1/workloads", json=document, headers=headers)
    assert answer.status_code == 201, answer.text
    floor.house.run_until(lambda: floor.house.phase(answer.json()["id"]) == "running")
    assert ">ann</span>" in floor.as_("root").get("/usage?span=all&by=submitter").text


@pytest.mark.requirement("I5")
def test_a_member_sees_the_use_of_its_projects_and_the_rest_as_one_sum(floor: Floor) -> None:
    page = floor.as_("ann").get("/usage?span=all").text
    assert ">translate<" not in page
    assert "held by others" in page
    assert exact(page, "sum") == exact(page, "capacity × time")


def test_what_is_no_window_is_said_and_the_form_is_there(floor: Floor) -> None:
    for query in ("span=custom&from=yesterday", "from=2027-01-02T00:00&to=2027-01-01T00:00"):
        answer = floor.as_("ann").get(f"/usage?{query}")
        assert answer.status_code == 422
        assert 'name="from"' in answer.text
        assert '<svg viewBox="0 0 860' not in answer.text


@pytest.mark.requirement("L12", "L24")
def test_the_files_have_the_figures_of_the_page(floor: Floor) -> None:
    browser = floor.as_("root")
    page = browser.get("/usage?span=all&by=project").text
    links = [link.replace("&amp;", "&") for link in re.findall(r'href="(/usage/report[^"]*)"', page)]
    table, report = (browser.get(link) for link in links)
    assert "attachment" in table.headers["Content-Disposition"]
    rows = list(csv.DictReader(io.StringIO(table.text)))
    held = sum(
        int(row["quantity_microseconds"]) for row in rows if (row["part"], row["class"]) == ("held", "gpu")
    )
    assert held == sum(int(row["held"]) for row in report.json()["rows"] if row["class"] == "gpu") > 0
    of_capacity = {
        row["class"]: int(row["quantity_microseconds"]) for row in rows if row["part"] == "capacity"
    }
    assert of_capacity == {row["class"]: int(row["capacity_time"]) for row in report.json()["capacity"]}
    assert report.json()["closes"]
    assert exact(page, "sum")[0] == of_capacity["gpu"]


def test_a_name_is_never_a_formula_to_a_spreadsheet() -> None:
    assert [_plain(name) for name in ("=1+1", "+a", "-b", "@c", "plain", None)] == [
        "'=1+1", "'+a", "'-b", "'@c", "plain", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("span", "zone", "hours"),
    [("today", "UTC", 12), ("today", "Asia/Shanghai", 20), ("today", "America/New_York", 7),
     ("week", "UTC", 7 * 24), ("month", "UTC", 14 * 24 + 12), ("month", "Asia/Shanghai", 14 * 24 + 20)],
)  # fmt: skip
def test_a_window_begins_where_the_readers_own_day_begins(span: str, zone: str, hours: int) -> None:
    start = _start(span, NOON, zone)
    assert start is not None
    assert NOON - start == hours * HOUR


def test_an_instant_is_read_on_the_readers_clock() -> None:
    assert instant("2027-01-15T20:00", "Asia/Shanghai") == NOON == instant("2027-01-15T12:00", "UTC")
    assert instant("", "UTC") is None
    for text in ("x", "2027-13-01", "1200-01-01T00:00"):
        with pytest.raises(InvalidError, match="instant-invalid"):
            instant(text, "UTC")


def test_a_zone_is_ahead_of_utc_by_what_its_clock_shows() -> None:
    assert shift_of("Asia/Shanghai", NOON) == 8 * HOUR
    assert shift_of("America/New_York", NOON) == -5 * HOUR


def test_the_picture_has_its_times_on_the_readers_clock(floor: Floor) -> None:
    browser = floor.as_("root")
    browser.post("/preferences", {"zone": "Asia/Shanghai", "next": "/"})
    page = browser.get("/usage?span=all").text
    ticks = re.findall(r'class="tick (?:mid|end)">([0-9:.]+)</text>', page)
    assert any(tick.startswith("16:00") for tick in ticks)
    assert not any(tick.startswith("08:") for tick in ticks)

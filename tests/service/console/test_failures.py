"""The pages of recurring failures and of the system."""

from __future__ import annotations

import pytest

from tests.support.console_floor import Floor


@pytest.fixture(scope="module")
def failed(floor: Floor) -> Floor:
    """Three workloads that fail alike."""
    for name in ("bad-1", "bad-2", "bad-3"):
        floor.submit(name, expect={"run": "20ms", "exit": "3"}, restart="never")
    floor.house.run_until(
        lambda: {floor.house.phase(floor.ids[name]) for name in ("bad-1", "bad-2", "bad-3")} == {"finished"}
    )
    return floor


@pytest.mark.requirement("F7")
def test_failures_of_one_kind_are_one_row_with_their_count_and_the_newest(failed: Floor) -> None:
    page = failed.as_("ann").get("/failures?span=all").text
    row = next(part for part in page.split("<tr>") if failed.ids["bad-3"] in part)
    assert '<td class="num">3' in row
    assert "bad-1" not in page, "the newest speaks for all"


def test_refusals_are_told_beside_failures_to_their_project_alone(failed: Floor) -> None:
    assert "greedy" in failed.as_("tom").get("/failures?span=all").text
    page = failed.as_("ann").get("/failures?span=all").text
    assert "greedy" not in page
    assert failed.ids["bad-3"] not in failed.as_("tom").get("/failures?span=all").text


def test_failures_are_narrowed_and_what_is_no_window_is_said(failed: Floor) -> None:
    browser = failed.as_("ann")
    assert "Nothing failed" in browser.get("/failures?span=all&stage=launch").text
    assert failed.ids["bad-3"] in browser.get("/failures?span=all&stage=nonsense&order=<b>").text
    assert browser.get("/failures?span=custom&from=never").status_code == 422


def test_the_system_page_tells_the_checks_and_what_each_cluster_can_do(floor: Floor) -> None:
    page = floor.as_("root").get("/system").text
    assert "In order" in page or "in order" in page
    assert ">sim</span>" in page
    assert "not driven from this server" not in page.split(">other</span>")[1].split("</section>")[0]
    assert floor.as_("ann").get("/system").status_code == 403
    assert 'href="/system"' not in floor.as_("ann").get("/").text

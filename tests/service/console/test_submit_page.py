"""Submitting from the console: previews, faults beside their field, once, and texts that are never obeyed."""

from __future__ import annotations

import html
from itertools import count

import httpx
import pytest

from steelyard.store.leaves import log_size
from tests.support.console import Browser, Pages, names

DOCUMENT = """
kind: Workload
metadata: {name: %s, namespace: %s}
spec:
  kind: training
  roles:
  - {name: main, command: [train], requests: {cpu: 1, memory: 1Gi, gpu: %s}, expect: {run: 1s}}
"""


NUMBERS = count()


def send(browser: Browser, text: str, act: str = "submit", once: str | None = None) -> httpx.Response:
    key = str(next(NUMBERS)) if once is None else once
    return browser.post("/submit", {"document": text, "act": act, "once": key}, on="/submit")


def test_a_preview_says_start_wait_or_refuse_and_records_nothing(shared: Pages) -> None:
    browser = shared.as_("ann")

    def preview(gpus: int, namespace: str = "detect-dev") -> str:
        with shared.house.store.read() as view:
            before = log_size(view)
        text = browser.post("/submit", {"document": DOCUMENT % ("p", namespace, gpus), "act": "preview"}).text
        with shared.house.store.read() as view:
            assert log_size(view) == before
        return text

    assert "would start" in preview(1)
    holder = shared.house.submit("holder", count=8, expect={"run": "forever"})
    shared.house.run_until(lambda: shared.house.phase(holder) == "running")
    assert "would wait" in preview(1)
    assert "would be refused" in preview(100)
    assert "Waits for quota" in preview(1)
    shared.house.cancel(holder)
    shared.house.run_dry()


def test_everything_that_is_wrong_is_told_each_with_its_line(shared: Pages) -> None:
    wrong = DOCUMENT.replace("kind: training", "kind: dance").replace("run: 1s}}", "run: 1s}, colour: blue}")
    page = send(shared.as_("ann"), wrong % ("p", "detect-dev", "many")).text
    assert [part in page for part in ("spec.kind", "gpu", "colour")] == [True, True, True]
    assert [f"line {number}" in page for number in (5, 7)] == [True, True]


def test_a_document_is_submitted_and_its_page_shown(shared: Pages) -> None:
    answer = send(shared.as_("ann"), DOCUMENT % ("mine", "detect-dev", 1))
    assert answer.status_code == 303
    page = shared.as_("ann").get(answer.headers["Location"]).text
    assert "It was submitted" in page
    assert "mine" in page
    shared.house.run_dry()


def test_a_form_that_is_sent_twice_submits_once(shared: Pages) -> None:
    browser = shared.as_("ann")
    first, second = (send(browser, DOCUMENT % ("only-once", "detect-dev", 1), once="abc") for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]
    assert names(browser.get("/workloads?q=only-once").text) == ["only-once"]
    other = send(browser, DOCUMENT % ("only-once", "detect-dev", 1), once="def")
    assert other.headers["Location"] != first.headers["Location"]
    shared.house.run_dry()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("kind: Workload\nmetadata: {name: x", "well-formed YAML"),
        ("", "there are 0"),
        (
            "kind: Workload\nmetadata: {name: x, namespace: detect-dev}\nspec:\n  kind: dance\n  roles: []",
            "line 5",
        ),
        (DOCUMENT.replace("cpu: 1", "cpu: -1") % ("x", "detect-dev", 1), "spec.roles[0].requests.cpu"),
        ("a: 1\na: 2", "line 2"),
        ("a: &x [*x]", "line 1"),
        ("!!python/object/apply:os.system ['true']", "line 1"),
    ],
)
def test_what_is_wrong_with_a_document_stands_beside_its_field_or_line(
    shared: Pages, text: str, expected: str
) -> None:
    answer = send(shared.as_("ann"), text)
    assert answer.status_code == 400
    assert expected in answer.text
    assert 'role="alert"' in answer.text


def test_what_is_refused_shows_every_reason_and_the_record_and_keeps_the_text(shared: Pages) -> None:
    answer = send(shared.as_("bob"), DOCUMENT % ("greedy", "translate-dev", 3))
    assert answer.status_code == 422
    assert "rf_" in answer.text
    assert "The request was refused" in answer.text
    assert "name: greedy" in answer.text


def test_submit_one_like_it_gives_a_document_that_means_the_same(shared: Pages) -> None:
    browser = shared.as_("ann")
    first = send(browser, DOCUMENT % ("mine", "detect-dev", 1))
    name = first.headers["Location"].split("/")[2].split("?")[0]
    page = browser.get(f"/submit?like={name}").text
    text = page.split("<textarea")[1].split(">", 1)[1].split("</textarea>")[0]
    second = send(browser, html.unescape(text))
    again = second.headers["Location"].split("/")[2].split("?")[0]
    assert shared.house.show(again)["spec"] == shared.house.show(name)["spec"]
    shared.house.run_dry()


def test_what_users_wrote_is_shown_and_never_obeyed(shared: Pages) -> None:
    evil = "</pre></textarea><script>alert(1)</script>\u202e"
    text = DOCUMENT.replace("[train]", f'["{evil}"]') % ("evil", "detect-dev", 1)
    browser = shared.as_("ann")
    for act in ("preview", "submit"):
        answer = send(browser, text, act)
        page = answer.text if act == "preview" else browser.get(answer.headers["Location"]).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in browser.get("/workloads?q=" + "%3Cscript%3Ealert(1)").text
    assert "<script>alert" not in browser.get("/%3Cscript%3Ealert(1)%3C/script%3E").text
    shared.house.run_dry()


def test_what_nobody_foresaw_is_told_without_detail_and_with_the_requests_id(
    shared: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("a detail of ours")

    monkeypatch.setattr("steelyard.console.home.overview", fail)
    answer = shared.as_("ann").get("/")
    assert answer.status_code == 500
    assert "a detail of ours" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.text

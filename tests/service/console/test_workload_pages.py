"""Pages of workloads over a whole control plane on a virtual clock: what they say, what their forms do."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator

import pytest

from steelyard.api.context import Services
from steelyard.bootstrap import create_door
from steelyard.identity.actor import SYSTEM
from steelyard.services.sessions import create_token
from steelyard.services.users import create_user
from steelyard.store.database import sqlite_url
from steelyard.store.leaves import log_size
from tests.support.console import Browser
from tests.support.house import House
from tests.support.stores import apply, doc

PEOPLE = {
    "root": {"role": "administrator"},
    "ann": {"role": "member", "project": "detect"},
    "vic": {"role": "viewer", "project": "detect"},
    "bob": {"role": "member", "project": "translate"},
}
DOCUMENT = """
kind: Workload
metadata: {name: %s, namespace: %s}
spec:
  kind: training
  roles:
  - {name: main, command: [train], requests: {cpu: 1, memory: 1Gi, gpu: %s}, expect: {run: 1s}}
"""


class Pages:
    """The control plane, its console, and browsers by name."""

    def __init__(self, house: House) -> None:
        self.house = house
        services = Services.over(house.store, desk=house.desk, engines=house.engines)
        self.attempts = services.attempts
        self.app = create_door(services)
        self.secrets = {}
        for name, binding in PEOPLE.items():
            create_user(house.store, SYSTEM, name)
            apply(house.store, doc("Binding", name, user=name, **binding))
            self.secrets[name] = create_token(house.store, SYSTEM, "test", user=name).secret

    def as_(self, name: str, lang: str = "en") -> Browser:
        return Browser(self.app, self.secrets[name], lang)


@pytest.fixture
def pages(tmp_path: object) -> Iterator[Pages]:
    house = House(sqlite_url(tmp_path), tmp_path)  # type: ignore[arg-type]
    made = Pages(house)
    yield made
    made.attempts.close()
    house.close()


def names(text: str) -> list[str]:
    """Names of the rows of a list."""
    return re.findall(r'<th scope="row"><a href="/workloads/wl_\w+" translate="no">([^<]*)</a>', text)


def test_the_list_is_narrowed_by_what_the_query_says(pages: Pages) -> None:
    pages.house.submit("red-one")
    pages.house.submit("red-two", kind="evaluation", hold=True)
    pages.house.submit("blue", namespace="translate-dev", hold=True)
    browser = pages.as_("root")
    assert names(browser.get("/workloads").text) == ["blue", "red-two", "red-one"]
    assert names(browser.get("/workloads?order=oldest").text) == ["red-one", "red-two", "blue"]
    assert names(browser.get("/workloads?q=red").text) == ["red-two", "red-one"]
    assert names(browser.get("/workloads?project=translate&phase=held").text) == ["blue"]
    assert names(browser.get("/workloads?kind=evaluation").text) == ["red-two"]
    assert names(browser.get("/workloads?queue=other").text) == []
    assert len(names(browser.get("/workloads?kind=nonsense&phase=nonsense").text)) == 3


def test_pages_of_the_list_follow_each_other_without_doubles(pages: Pages) -> None:
    for number in range(60):
        pages.house.submit(f"w-{number}", hold=True)
    browser, seen, path = pages.as_("root"), [], "/workloads?q=w-"
    for _ in range(3):
        page = browser.get(path).text
        seen += names(page)
        following = re.search(r'href="([^"]*)" rel="next"', page)
        if following is None:
            break
        path = following[1].replace("&amp;", "&")
    assert seen == [f"w-{number}" for number in reversed(range(60))]


@pytest.mark.requirement("I2")
def test_what_belongs_to_other_projects_is_in_no_list_and_has_no_page(pages: Pages) -> None:
    secret = pages.house.submit("secret-name")
    browser = pages.as_("bob")
    assert names(browser.get("/workloads").text) == []
    for rest in ("", "/explanation", "/cancel"):
        answer = browser.get(f"/workloads/{secret}{rest}")
        assert answer.status_code == 404
        assert "secret-name" not in answer.text
    assert browser.get(f"/submit?like={secret}").status_code == 404


def test_the_page_of_what_waits_leads_with_every_reason_and_who_holds(pages: Pages) -> None:
    holder = pages.house.submit("holder", count=8, expect={"run": "forever"})
    pages.house.run_until(lambda: pages.house.phase(holder) == "running")
    waiting = pages.house.submit("waiting", count=2)
    pages.house.tick(3)
    page = pages.as_("ann").get(f"/workloads/{waiting}").text
    assert "Why it waits" in page
    assert "Waits for quota" in page
    assert "Waits for capacity" in page
    assert f'<a href="/workloads/{holder}" translate="no">holder</a>' in page
    assert "waits" in pages.as_("ann").get(f"/workloads/{waiting}/explanation").text


def test_holders_of_other_projects_are_nameless_on_the_page(pages: Pages) -> None:
    holder = pages.house.submit("secret-holder", count=8, expect={"run": "forever"})
    pages.house.run_until(lambda: pages.house.phase(holder) == "running")
    waiting = pages.house.submit("waiting", namespace="translate-dev")
    pages.house.tick(3)
    browser = pages.as_("bob")
    for path in ("/", "/workloads", f"/workloads/{waiting}", f"/workloads/{waiting}/explanation"):
        page = browser.get(path).text
        assert "secret-holder" not in page, path
        assert holder not in page, path
    assert "work of other projects" in browser.get(f"/workloads/{waiting}").text


def test_the_page_of_what_failed_leads_with_the_verdict_and_shows_the_receipt(pages: Pages) -> None:
    failed = pages.house.submit("failed", expect={"run": "10ms", "exit": "3"}, restart="never")
    pages.house.run_dry()
    page = pages.as_("ann").get(f"/workloads/{failed}").text
    assert page.index("What happened") < page.index("At a glance") < page.index("Receipt of the release")
    assert "exit code 3" in page
    assert "confirmed" in page
    assert "simulated" in page
    assert "程序自行退出，退出码 3" in pages.as_("ann", "zh").get(f"/workloads/{failed}").text
    home = pages.as_("ann").get("/").text
    assert "exit code 3" in home


def test_cancelling_asks_first_and_then_does_it(pages: Pages) -> None:
    running = pages.house.submit("running", expect={"run": "forever"})
    pages.house.run_until(lambda: pages.house.phase(running) == "running")
    browser = pages.as_("root")
    assert "Cancel this workload?" in browser.get(f"/workloads/{running}/cancel").text
    assert pages.house.show(running)["cancel_requested_at"] is None
    answer = browser.post(f"/workloads/{running}/cancel", {}, on=f"/workloads/{running}/cancel")
    assert answer.headers["Location"] == f"/workloads/{running}?done=cancel"
    assert "It was asked to end" in browser.get(answer.headers["Location"]).text
    pages.house.run_dry()
    assert pages.house.show(running)["outcome"] == "cancelled"


def test_holding_releasing_and_trying_again_work_as_forms(pages: Pages) -> None:
    browser = pages.as_("root")
    workload = pages.house.submit("w", expect={"run": "10ms", "exit": "1"}, restart="never")
    for action, phase in (("hold", "held"), ("release", "queued")):
        assert browser.post(f"/workloads/{workload}/{action}", {}).status_code == 303
        assert pages.house.phase(workload) == phase
    pages.house.run_dry()
    version = str(pages.house.show(workload)["version"])
    assert browser.post(f"/workloads/{workload}/retry", {"version": "1"}).status_code == 409
    assert browser.post(f"/workloads/{workload}/retry", {"version": version}).status_code == 303
    assert pages.house.show(workload)["attempt"] == 2
    pages.house.run_dry()


def test_who_may_only_look_is_offered_nothing_and_told_the_missing_grant(pages: Pages) -> None:
    workload = pages.house.submit("w", hold=True)
    browser = pages.as_("vic")
    page = browser.get(f"/workloads/{workload}").text
    assert "/cancel" not in page
    answer = browser.post(f"/workloads/{workload}/cancel", {})
    assert answer.status_code == 403
    assert "Missing grant" in answer.text
    assert "change workload" in answer.text
    assert pages.house.phase(workload) == "held"
    assert (
        "/cancel" not in pages.as_("ann").get(f"/workloads/{workload}").text
    )  # another's, of her own project


def test_what_can_no_longer_be_done_is_told_as_a_conflict(pages: Pages) -> None:
    workload = pages.house.submit("w", expect={"run": "10ms"})
    pages.house.run_dry()
    answer = pages.as_("root").post(f"/workloads/{workload}/cancel", {})
    assert answer.status_code == 409
    assert "It has changed meanwhile" in answer.text


# --- submit ------------------------------------------------------------------------------------------


def send(browser: Browser, text: str, act: str = "submit", once: str = "1") -> object:
    return browser.post("/submit", {"document": text, "act": act, "once": once}, on="/submit")


def test_a_preview_says_start_wait_or_refuse_and_records_nothing(pages: Pages) -> None:
    browser = pages.as_("ann")

    def preview(gpus: int, namespace: str = "detect-dev") -> str:
        with pages.house.store.read() as view:
            before = log_size(view)
        text = browser.post("/submit", {"document": DOCUMENT % ("p", namespace, gpus), "act": "preview"}).text
        with pages.house.store.read() as view:
            assert log_size(view) == before
        return text

    assert "would start" in preview(1)
    holder = pages.house.submit("holder", count=8, expect={"run": "forever"})
    pages.house.run_until(lambda: pages.house.phase(holder) == "running")
    assert "would wait" in preview(1)
    assert "would be refused" in preview(100)
    assert "Waits for quota" in preview(1)


def test_a_document_is_submitted_and_its_page_shown(pages: Pages) -> None:
    answer = send(pages.as_("ann"), DOCUMENT % ("mine", "detect-dev", 1))
    assert answer.status_code == 303  # type: ignore[attr-defined]
    page = pages.as_("ann").get(answer.headers["Location"]).text  # type: ignore[attr-defined]
    assert "It was submitted" in page
    assert "mine" in page
    pages.house.run_dry()


def test_a_form_that_is_sent_twice_submits_once(pages: Pages) -> None:
    browser = pages.as_("ann")
    first, second = (send(browser, DOCUMENT % ("mine", "detect-dev", 1), once="abc") for _ in range(2))
    assert first.headers["Location"] == second.headers["Location"]  # type: ignore[attr-defined]
    assert names(browser.get("/workloads").text) == ["mine"]
    other = send(browser, DOCUMENT % ("mine", "detect-dev", 1), once="def")
    assert other.headers["Location"] != first.headers["Location"]  # type: ignore[attr-defined]
    pages.house.run_dry()


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
    pages: Pages, text: str, expected: str
) -> None:
    answer = send(pages.as_("ann"), text)
    assert answer.status_code == 400  # type: ignore[attr-defined]
    assert expected in answer.text  # type: ignore[attr-defined]
    assert 'role="alert"' in answer.text  # type: ignore[attr-defined]


def test_what_is_refused_shows_every_reason_and_the_record_and_keeps_the_text(pages: Pages) -> None:
    answer = send(pages.as_("bob"), DOCUMENT % ("greedy", "translate-dev", 3))
    assert answer.status_code == 422  # type: ignore[attr-defined]
    assert "rf_" in answer.text  # type: ignore[attr-defined]
    assert "The request was refused" in answer.text  # type: ignore[attr-defined]
    assert "name: greedy" in answer.text  # type: ignore[attr-defined]


def test_submit_one_like_it_gives_a_document_that_means_the_same(pages: Pages) -> None:
    browser = pages.as_("ann")
    first = send(browser, DOCUMENT % ("mine", "detect-dev", 1))
    name = first.headers["Location"].split("/")[2].split("?")[0]  # type: ignore[attr-defined]
    page = browser.get(f"/submit?like={name}").text
    text = page.split("<textarea")[1].split(">", 1)[1].split("</textarea>")[0]
    second = send(browser, html.unescape(text), once="2")
    again = second.headers["Location"].split("/")[2].split("?")[0]  # type: ignore[attr-defined]
    assert pages.house.show(again)["spec"] == pages.house.show(name)["spec"]
    pages.house.run_dry()


# --- hostile texts -----------------------------------------------------------------------------------


def test_what_users_wrote_is_shown_and_never_obeyed(pages: Pages) -> None:
    evil = "</pre></textarea><script>alert(1)</script>\u202e"
    text = DOCUMENT.replace("[train]", f'["{evil}"]') % ("evil", "detect-dev", 1)
    browser = pages.as_("ann")
    for act in ("preview", "submit"):
        answer = send(browser, text, act)
        page = answer.text if act == "preview" else browser.get(answer.headers["Location"]).text  # type: ignore[attr-defined]
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in browser.get("/workloads?q=" + "%3Cscript%3Ealert(1)").text
    assert "<script>alert" not in browser.get("/%3Cscript%3Ealert(1)%3C/script%3E").text
    pages.house.run_dry()


def test_what_nobody_foresaw_is_told_without_detail_and_with_the_requests_id(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("a detail of ours")

    monkeypatch.setattr("steelyard.console.home.overview", fail)
    answer = pages.as_("ann").get("/")
    assert answer.status_code == 500
    assert "a detail of ours" not in answer.text
    assert answer.headers["X-Request-Id"] in answer.text

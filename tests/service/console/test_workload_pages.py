"""Pages of workloads over a whole control plane on a virtual clock: what they say, what their forms do."""

from __future__ import annotations

import re

import pytest

from steelyard.bootstrap import create_door
from steelyard.services.doctor import Check
from tests.support.console import Browser, Pages, names


def test_the_list_is_narrowed_by_what_the_query_says(pages: Pages) -> None:
    pages.house.submit("hue-red")
    pages.house.submit("hue-rose", kind="evaluation", hold=True)
    pages.house.submit("hue-blue", namespace="translate-dev", hold=True)
    browser = pages.as_("root")

    def listed(query: str) -> list[str]:
        return names(browser.get(f"/workloads?q=hue{query}").text)

    assert listed("") == ["hue-blue", "hue-rose", "hue-red"]
    assert listed("&order=oldest") == ["hue-red", "hue-rose", "hue-blue"]
    assert listed("-r") == ["hue-rose", "hue-red"]
    assert listed("&project=translate&phase=held") == ["hue-blue"]
    assert listed("&kind=evaluation") == ["hue-rose"]
    assert listed("&queue=other") == []
    assert len(listed("&kind=nonsense&phase=nonsense")) == 3


def test_a_filter_by_what_there_is_not_is_said_and_narrows_nothing(pages: Pages) -> None:
    pages.house.submit("here")
    page = pages.as_("ann").get("/workloads?phase=zzz<b>").text
    assert "There is no phase “zzz&lt;b&gt;”" in page
    assert "here" in names(page)
    assert "There is no" not in pages.as_("ann").get("/workloads?phase=running").text


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
    assert "secret-name" not in browser.get("/workloads").text
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
    asked = pages.as_("ann").get(f"/workloads/{waiting}/explanation").text
    assert "waits" in asked
    assert "What would start it now" in asked
    assert "Wait until this ends: holder" in asked
    assert "⟦" not in asked


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


def test_a_service_is_scaled_by_a_form_and_shows_its_replicas(pages: Pages) -> None:
    service = pages.house.submit(
        "shop", kind="inference", replicas={"initial": 1, "max": 3}, expect={"run": "forever"}
    )
    pages.house.run_until(lambda: pages.house.phase(service) == "running")
    browser = pages.as_("root")
    assert "1 of 1 replicas" in browser.get(f"/workloads/{service}").text
    for wrong in ("0", "4", "many", "1e3", ""):
        assert browser.post(f"/workloads/{service}/scale", {"replicas": wrong}).status_code == 400, wrong
    answer = browser.post(f"/workloads/{service}/scale", {"replicas": "2"}, on=f"/workloads/{service}/scale")
    assert answer.status_code == 303
    pages.house.tick(20)
    page = browser.get(f"/workloads/{service}").text
    assert "2 of 2 replicas" in page
    assert "/scale" not in pages.as_("vic").get(f"/workloads/{service}").text


def test_what_is_no_service_can_not_be_scaled(pages: Pages) -> None:
    workload = pages.house.submit("plain", hold=True)
    browser = pages.as_("root")
    assert browser.get(f"/workloads/{workload}/scale").status_code == 409
    assert browser.post(f"/workloads/{workload}/scale", {"replicas": "2"}).status_code == 409


def test_an_array_shows_how_much_of_it_is_done(pages: Pages) -> None:
    pages.house.submit(
        "sweep", kind="batch", array={"completions": 5, "parallelism": 5}, expect={"run": "10ms"}
    )
    pages.house.run_dry()
    browser = pages.as_("ann")
    listed = browser.get("/workloads?q=sweep").text
    page = browser.get(re.findall(r"/workloads/wl_\w+", listed)[0]).text
    assert "5 of 5 done" in page


def test_an_evaluation_names_its_model_and_data_and_each_leads_to_the_other(pages: Pages) -> None:
    model = pages.house.submit("teacher", expect={"run": "10ms"})
    pages.house.run_dry()
    asked = {
        "model": {"name": "net", "workload": model},
        "dataset": {"name": "digits", "digest": f"sha256:{'b' * 64}"},
    }
    judged = pages.house.submit("judge", kind="evaluation", evaluation=asked, expect={"run": "10ms"})
    pages.house.run_dry()
    browser = pages.as_("ann")
    page = browser.get(f"/workloads/{judged}").text
    assert "What was evaluated" in page
    assert "digits" in page
    assert f'href="/workloads/{model}"' in page
    assert f'href="/workloads/{judged}"' in browser.get(f"/workloads/{model}").text


def test_the_home_page_tells_of_checks_that_fail_to_those_who_may_see_them(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def examine(*_arguments: object) -> list[Check]:
        asked.append(1)
        return [Check("disk", False, "disk-low", {"free_mib": 7}), Check("log", True, "log-empty", {})]

    monkeypatch.setattr("steelyard.console.home.examine", examine)
    app, told = create_door(pages.services), "Only 7 MiB are free"
    for _ in range(2):
        assert told in Browser(app, pages.secrets["root"]).get("/").text
    assert len(asked) == 1
    assert told not in Browser(app, pages.secrets["ann"]).get("/").text


def test_the_whole_log_is_a_file_and_another_projects_is_not_there(
    pages: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload = pages.house.submit("logged", expect={"run": "10ms"})
    pages.house.run_dry()
    answer = pages.as_("ann").get(f"/workloads/{workload}/log")
    assert answer.text.startswith("[simulated]")
    assert answer.text.rstrip().endswith("exited with 0")
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{workload}-main-0.log"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    monkeypatch.setattr("steelyard.console.log.MAX_CHUNK", 16)  # piece by piece it is the same
    assert pages.as_("ann").get(f"/workloads/{workload}/log").text == answer.text
    assert pages.as_("bob").get(f"/workloads/{workload}/log").status_code == 404
    assert pages.as_("ann").get(f"/workloads/{workload}/log?member=other/7").status_code == 404

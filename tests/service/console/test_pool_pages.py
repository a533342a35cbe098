"""Pages of pools, labels, admission and records: what they show; pending is never shown as passed."""

from __future__ import annotations

import re

from tests.support.console import Pages

CHIP = re.compile(r'<span class="chip t-(\w+)">(?:(?!</span>).)*?#g-([a-z-]+)"/></svg>([^<]*)')
NPU = {"class": "npu", "family": "ascend", "model": "Ascend-910B", "reason": "second room"}


def admission(pages: Pages, **changed: str) -> str:
    """The address of an admission that has just begun."""
    answer = pages.as_("root").post("/admissions", {**NPU, **changed})
    assert answer.status_code == 303
    return str(answer.headers["location"])


def test_a_pool_is_closed_with_its_reason_and_opened_again(pages: Pages) -> None:
    browser = pages.as_("root")
    assert "/pools/cores/close" in browser.get("/pools/cores").text
    assert "/pools/cores/close" not in pages.as_("ann").get("/pools/cores").text
    assert browser.post("/pools/cores/close", {"reason": ""}).status_code == 422
    assert browser.post("/pools/cores/close", {"reason": "moving racks"}).status_code == 303
    page = browser.get("/pools/cores").text
    assert "Closed by an operator" in page
    assert "moving racks" in page
    assert "moving racks" in browser.get("/pools").text
    assert browser.post("/pools/cores/close", {"reason": "again"}).status_code == 422
    assert browser.post("/pools/cores/open", {"reason": "racks moved"}).status_code == 303
    page = browser.get("/pools/cores").text
    assert "Closed by an operator" not in page
    assert "racks moved" in page, "the closing stays in the history"


def test_what_is_pending_verification_has_a_clock_and_never_a_tick(pages: Pages) -> None:
    place = admission(pages, model="pending-model")
    device = re.search(r"/devices/dv_\w+", pages.as_("root").get("/inventory?class=gpu").text)
    assert device is not None
    for address in ("/pools", "/pools/accelerators", "/admissions", place, device[0]):
        for lang, word in (("en", "pending verification"), ("zh", "待验证")):
            page = pages.as_("root", lang).get(address).text
            chips = CHIP.findall(page)
            found = {(tone, shape) for tone, shape, said in chips if said == word}
            assert found == {("wait", "clock")}, address


def test_an_admission_is_taken_step_by_step_and_not_finished_before_its_run(pages: Pages) -> None:
    browser, place = pages.as_("root"), admission(pages)
    wrong = browser.post(f"{place}/steps/labels", {"labels": "no-such-key"})
    assert wrong.status_code == 422
    assert "no-such-key" in wrong.text
    assert browser.post(f"{place}/steps/labels", {"labels": "zone, framework"}).status_code == 303
    environment = {"environment": "framework=mindspore, framework=torch-npu, cann=8.0"}
    assert browser.post(f"{place}/steps/environment", environment).status_code == 303
    owner = {"owner": "platform", "on_call": "npu duty"}
    assert browser.post(f"{place}/steps/owner", owner).status_code == 303
    page = browser.get(place).text
    assert "framework=mindspore, torch-npu" in page
    assert "npu duty" in page
    refused = browser.post(f"{place}/finish", {})
    assert refused.status_code == 422
    assert "monitoring" in refused.text
    run = pages.house.submit("short", expect={"run": "10ms"})
    pages.house.run_until(lambda: pages.house.phase(run) == "finished")
    simulated = browser.post(f"{place}/steps/verification", {"workload": run})
    assert simulated.status_code == 422, "nothing simulated verifies, nor does a run on another model"
    assert browser.post(f"{place}/steps/nothing", {}).status_code == 404
    assert "<form" not in pages.as_("vic").get(place).text.split("<main")[1]


def test_the_same_type_is_not_begun_twice(pages: Pages) -> None:
    place = admission(pages, model="twice")
    again = pages.as_("root").post("/admissions", {**NPU, "model": "twice"})
    assert again.status_code == 422
    assert place.rpartition("/")[2] in again.text


def test_labels_show_their_meaning_in_the_readers_language_and_their_history(pages: Pages) -> None:
    assert "机房" in pages.as_("ann", "zh").get("/labels").text
    page = pages.as_("ann").get("/labels?key=rack").text
    assert "machine room" in page
    assert "It has not been changed." in page


def test_documents_and_entry_points_prove_nothing(pages: Pages) -> None:
    pages.house.apply("""
kind: SupportDocument
metadata: {name: matrix}
spec: {issuer: somebody, date: "2026-08", scope: {class: gpu}, link: "https://docs.example/<b>"}
---
kind: Extension
metadata: {name: plugin}
spec: {type: device-plugin}
---
kind: ObservationSource
metadata: {name: exporter}
spec: {type: exporter, measures: [power]}
""")
    page = pages.as_("root").get("/support").text
    assert page.count("nothing</span>") == 3
    assert "<b>" not in page
    assert "href=\"https://docs.example" not in page, "nobody is led away by what somebody wrote"

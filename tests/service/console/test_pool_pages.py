"""Pages of pools, labels, admission and records: what they show; pending is never shown as passed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.store.database import sqlite_url
from tests.support.console import Pages
from tests.support.found_engine import Found, FoundEngine
from tests.support.house import House

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


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Pages]:
    """A control plane whose devices are not marked as simulated, as far as this test goes."""
    found = Found(detected=True)
    made = Pages(House(sqlite_url(tmp_path), tmp_path, wrap=lambda engine: FoundEngine(engine, found)))
    yield made
    made.close()


@pytest.mark.requirement("C8")
def test_a_record_of_a_run_makes_a_type_verified_until_it_is_ended(real: Pages) -> None:
    browser = real.as_("root")
    source = "kind: ObservationSource\nmetadata: {name: probe}\n"
    real.house.apply(f"{source}spec: {{type: probe, measures: [power]}}")
    place = admission(real, **{"class": "gpu", "family": "nvidia", "model": "A100"})
    run = real.house.submit("proof", expect={"run": "10ms"})
    real.house.run_until(lambda: real.house.phase(run) == "finished")
    real.house.run_dry()
    for step, form in (
        ("labels", {"labels": "framework"}),
        ("environment", {"environment": "framework=jax"}),
        ("monitoring", {"source": "probe"}),
        ("owner", {"owner": "platform", "on_call": "gpu duty"}),
        ("verification", {"workload": run, "valid_for": "30d"}),
    ):
        assert browser.post(f"{place}/steps/{step}", form).status_code == 303, step
    assert "pending verification" in browser.get(place).text, "it is not admitted yet"
    assert browser.post(f"{place}/finish", {}).status_code == 303
    page = browser.get(place).text
    assert "pending verification" not in page
    record = re.search(r"/verifications/vr_\w+", page)
    assert record is not None
    assert run in browser.get(record[0]).text
    assert "verified" in browser.get("/verifications").text
    device = re.search(r"/devices/dv_\w+", browser.get("/inventory?class=gpu").text)
    assert device is not None
    assert ">verified<" in browser.get(device[0]).text.split('id="h-support"')[1]
    assert browser.post(f"{record[0]}/end", {"reason": ""}).status_code == 422
    assert browser.post(f"{record[0]}/end", {"reason": "another driver"}).status_code == 303
    assert "another driver" in browser.get(record[0]).text
    for address in (place, record[0], "/verifications", device[0]):
        assert "pending verification" in browser.get(address).text, address

"""The pages of evidence: checkpoint, records with proofs that are checked, streams, checks, bundles."""

from __future__ import annotations

import io
import re
import tarfile

import pytest

from steelyard.console import evidence
from steelyard.evidence.checkpoint import parse_checkpoint, parse_note, short_code
from steelyard.evidence.merkle import leaf_hash, verify_inclusion
from steelyard.evidence.proof import parse_tlog_proof
from steelyard.services import audit
from tests.support.console_floor import Floor


def test_the_newest_checkpoint_is_shown_with_its_short_code_and_key(floor: Floor) -> None:
    browser = floor.as_("aud")
    page = browser.get("/evidence").text
    head = parse_checkpoint(parse_note(browser.get("/evidence/checkpoint.txt").text).body)
    assert short_code(head) in page
    assert head.root.hex() in page
    assert "signature holds" in page
    assert floor.services.signer is not None


@pytest.mark.requirement("K7")
def test_a_record_is_shown_with_a_proof_that_holds_here_and_elsewhere(floor: Floor) -> None:
    browser = floor.as_("aud")
    page = browser.get("/evidence/leaves/3").text
    assert "verifies here" in page
    body = browser.get("/evidence/leaves/3/record.json").content
    proof = parse_tlog_proof(browser.get("/evidence/leaves/3/proof.txt").text)
    head = parse_checkpoint(parse_note(proof.checkpoint_note).body)
    assert proof.extra == body
    assert verify_inclusion(leaf_hash(body), 3, head.size, list(proof.proof), head.root)
    assert all(step.hex() in page for step in proof.proof)


def test_a_record_that_there_is_not_is_said_to_be_not_there(floor: Floor) -> None:
    for seq in ("99999999", "x", "-1", "9" * 30):
        assert floor.as_("aud").get(f"/evidence/leaves/{seq}").status_code == 404


def test_the_log_is_walked_back_to_its_beginning_page_by_page(
    floor: Floor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "PAGE_SIZE", 7)
    browser, place, seen = floor.as_("aud"), "/evidence/leaves", []
    while place:
        page = browser.get(place).text
        seen += [int(seq) for seq in re.findall(r'<a href="/evidence/leaves/(\d+)">', page)]
        following = re.search(r'href="(/evidence/leaves\?[^"]*before=\d+)" rel="next"', page)
        place = following[1].replace("&amp;", "&") if following else ""
    assert seen == list(range(seen[0], -1, -1))
    assert len(seen) > 40


@pytest.mark.requirement("K6")
def test_a_stream_is_found_by_its_name_and_has_its_records_alone(floor: Floor) -> None:
    browser, workload = floor.as_("aud"), floor.ids["short"]
    page = browser.get(f"/evidence/leaves?stream=object/workload/{workload}").text
    actions = re.findall(r'translate="no">(workload\.[a-z]+)</code>', page)
    assert actions[-1] == "workload.submit"
    assert "workload.finish" in actions
    assert browser.get("/evidence/leaves?stream=object/workload/wl_0000000000000").status_code == 404
    streams = browser.get("/evidence/streams?kind=project").text
    assert ">project/detect</a>" in streams
    assert ">system</a>" not in streams
    assert "No stream has such a name." in browser.get("/evidence/streams?q=%25").text


def test_two_checkpoints_are_proven_to_be_of_one_log(floor: Floor) -> None:
    browser = floor.as_("aud")
    browser.get("/evidence")
    floor.submit("more")
    assert floor.services.signer is not None
    audit.checkpoint(floor.house.store, floor.services.signer, "test")
    page = browser.get("/evidence").text
    sizes = sorted({int(size) for size in re.findall(r'<option value="(\d+)" translate="no">', page)})
    assert len(sizes) >= 2
    proven = browser.get(f"/evidence/consistency?from={sizes[0]}&to={sizes[-1]}").text
    assert "</svg>proven" in proven
    assert browser.get(f"/evidence/consistency?from={sizes[0]}&to=99999").status_code == 404
    assert browser.get(f"/evidence/consistency?from={sizes[-1]}&to={sizes[0]}").status_code == 400


def test_all_checks_are_run_by_a_form_and_told_one_by_one(floor: Floor) -> None:
    page = floor.as_("aud").post("/evidence/checks", {}).text
    assert "Everything holds." in page
    assert all(f">CK{number}</code>" in page for number in range(1, 10))
    assert page.count("</svg>holds") == 12


def test_a_bundle_is_exported_by_a_form(floor: Floor) -> None:
    answer = floor.as_("aud").post("/evidence/bundle", {"span": "custom", "from": "", "to": ""})
    assert answer.headers["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(answer.content)) as archive:
        assert "verify/verify.py" in archive.getnames()


def test_a_bundle_of_no_window_is_refused_on_the_page(floor: Floor) -> None:
    answer = floor.as_("aud").post("/evidence/bundle", {"span": "custom", "from": "never", "to": ""})
    assert answer.status_code == 422
    assert "never" in answer.text


@pytest.mark.requirement("I5")
def test_the_menu_leads_auditors_to_the_evidence_and_nobody_else(floor: Floor) -> None:
    assert 'href="/evidence"' in floor.as_("aud").get("/").text
    assert 'href="/evidence"' not in floor.as_("ann").get("/").text
    assert floor.as_("ann").get("/evidence/leaves/0").status_code == 403

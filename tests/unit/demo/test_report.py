"""The report: everything of the story is in it, exactly, in both languages, and nothing that could act."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from steelyard.demo.expect import Said
from steelyard.demo.report import build
from steelyard.demo.report.facts import from_json, to_json
from steelyard.demo.report.speech import Speech, exact, percent
from tests.support.demo_facts import END, T0, facts, partial

VOID = {"meta", "input", "br", "hr", "img", "link"}
PAGE = build(facts())


class Outline(HTMLParser):
    """Checks that tags are closed in order, and collects ids and text by language."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.faults: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts = 0
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given["href"])] if "href" in given else []
        self.scripts += tag == "script"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.faults.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def outline(page: str) -> Outline:
    reader = Outline()
    reader.feed(page)
    reader.close()
    return reader


@pytest.mark.parametrize("page", [PAGE, build(partial())], ids=["whole", "broke-early"])
def test_tags_are_closed_ids_are_unique_and_links_lead_somewhere(page: str) -> None:
    seen = outline(page)
    assert (seen.faults, seen.open) == ([], [])
    assert len(seen.ids) == len(set(seen.ids))
    assert {link.removeprefix("#") for link in seen.links} <= set(seen.ids)


def test_a_name_that_is_a_script_is_shown_and_does_not_run() -> None:
    seen = outline(PAGE)
    assert seen.scripts == 1
    assert "<script>alert(1)</script>" in seen.text


@pytest.mark.requirement("O14")
def test_what_is_simulated_is_marked_in_both_languages() -> None:
    text = outline(PAGE).text
    assert "GPU（模拟）" in text
    assert "GPU (simulated)" in text


@pytest.mark.requirement("L23")
def test_exact_sums_stand_beside_capacity_times_time_with_their_difference() -> None:
    text = outline(PAGE).text
    assert exact(1000 * (END - T0)) in text
    assert exact(14 * 1_000_000 * 1000) in text


@pytest.mark.requirement("J4")
@pytest.mark.parametrize("lang", ["zh", "en"])
def test_what_was_seen_is_told_in_words_and_not_in_codes(lang: str) -> None:
    say = Speech(lang)
    codes = {
        "waits": {"reason": "waiting-for-quota"}, "refused": {"reason": "over-limit"},
        "never-fits": {"reason": "exceeds-capacity"}, "squeezed": {"reason": "waiting-for-capacity"},
        "verdict": {"reason": "image-not-found"}, "survived": {"code": "node-lost"},
        "escaped": {"receipt": "confirmed", "outcome": "cancelled"}, "reviewed": {"next": "rules"},
    }  # fmt: skip
    for name, params in codes.items():
        sentence = say.said(Said(f"demo.seen.{name}", params))
        bare = [code for code in params.values() if code in sentence and ("-" in code or lang == "zh")]
        assert bare == [], sentence
    assert "over-limit" not in outline(build(facts())).text


def test_a_refusal_is_told_with_its_four_numbers() -> None:
    rows = re.findall(r"<tr>(?:(?!</tr>).)*too-many(?:(?!</tr>).)*</tr>", PAGE)
    assert any(re.findall(r'class="num">([^<]*)<', row) == ["4", "0", "16", "12"] for row in rows)


@pytest.mark.requirement("E5")
def test_the_holders_of_a_wait_sum_to_the_shortfall() -> None:
    assert re.search(r"pretrain</td><td>vision</td>.{0,80}>2<", PAGE)


@pytest.mark.requirement("O1", "O10", "O15")
def test_what_stays_pending_is_listed_and_never_called_passed() -> None:
    english = Speech("en")
    assert english("pending.simulated") in outline(PAGE).text
    assert "simulated-device" in PAGE


def test_the_foot_of_the_page_carries_the_checkpoint() -> None:
    assert PAGE.count("412-ABCD-EFGH-IJKL-MNOP") == 4  # in the evidence and on the foot, in each language


def test_a_broken_check_is_seen() -> None:
    assert re.search(r"CK9</code>.*?badge bad", PAGE)
    assert not re.search(r"CK8</code>(?:(?!</tr>).)*badge bad", PAGE)


def test_a_story_that_broke_early_still_has_a_report_that_says_so() -> None:
    text = outline(build(partial())).text
    assert "no <door>" in text
    assert Speech("en")("missing") in text


def test_the_same_facts_give_the_same_page(tmp_path: Path) -> None:
    stored = tmp_path / "report.json"
    stored.write_text(to_json(facts()), encoding="utf-8")
    assert build(from_json(stored)) == PAGE


def test_the_language_of_the_story_is_shown_first() -> None:
    english = build(replace(facts(), lang="en"))
    assert re.search(r'id="show-en"[^>]* checked', english)
    assert re.search(r'id="show-zh"[^>]* checked', PAGE)


@pytest.mark.parametrize(
    ("name", "value", "shown"),
    [
        ("gpu", 1_500_000_000, "1.5 GPU·s"),
        ("gpu", 72_000_000_000_000, "20.0 GPU·h"),
        ("memory", 1024 * 1_000_000, "1.0 GiB·s"),
        ("cpu", 0, "0.0 core·s"),
    ],
)
def test_quantity_times_time_is_shown_in_units_of_its_class(name: str, value: int, shown: str) -> None:
    assert Speech("en").product(name, value) == shown


def test_a_share_of_nothing_is_a_dash() -> None:
    assert (percent(1, 0), percent(1, 3)) == ("–", "33.3 %")

"""What answers show of themselves at a prompt and in a notebook: short, translated, harmless."""

from __future__ import annotations

import copy
import json
import pickle
import re
from html.parser import HTMLParser
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from steelyard.client import Client
from steelyard.client.columns import NOUNS
from steelyard.client.shown import ROWS_OF_HTML, ROWS_OF_TEXT, shown
from steelyard.locale import LANGUAGES, has
from steelyard.locale.plain import columns, cut, padded
from tests.service.cli import fake

HOSTILE = "<img src=x onerror=alert(1)>\"'&\x1b[31m\u202e\n</td>"
CJK = re.compile("[\u4e00-\u9fff]")
#: Noun → an answer of it.
ANSWERS: dict[str, Any] = {
    "workloads": [fake.ROW, fake.OLD],
    "workload": fake.FAILED,
    "explanation": {"decision": "waits", "reasons": [fake.REASON]},
    "nodes": [{**fake.NODE, "availability": "available"}],
    "node": {**fake.NODE, "availability": "available"},
    "device": fake.DEVICE,
    "queues": [fake.QUEUE],
    "queue": fake.QUEUE,
    "quotas": [{**fake.QUEUE, "limits": [{"subject": "gpu", "hard": 4000, "used": 0}]}],
    "quota": fake.QUEUE,
    "usage": fake.USAGE,
    "summary": fake.SUMMARY,
    "failures": fake.FAILURES,
    "objects": [fake.DOCUMENT],
    "object": fake.DOCUMENT,
    "refusals": [fake.REFUSAL],
    "users": [fake.USER],
    "tokens": [fake.TOKEN],
    "releases": [fake.UNPROVEN],
    "cycles": [fake.CYCLE],
    "results": [fake.RESULT],
}


class Tags(HTMLParser):
    """The tags and attributes of a page, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def spoiled(value: Any) -> Any:
    """The same with every text of others hostile."""
    if isinstance(value, dict):
        return {key: spoiled(one) for key, one in value.items()}
    if isinstance(value, list):
        return [spoiled(one) for one in value]
    return HOSTILE if isinstance(value, str) and not value.isdigit() else value


def test_every_kind_of_answer_is_tried() -> None:
    assert set(ANSWERS) == set(NOUNS)


@pytest.mark.parametrize("noun", list(NOUNS))
def test_every_heading_and_name_has_its_text(noun: str) -> None:
    assert [head for head, _ in NOUNS[noun].columns if not has(f"cli.column.{head}")] == []
    one = NOUNS[noun].one
    assert not one or (one in NOUNS and has(f"notebook.noun.{one}"))
    assert isinstance(ANSWERS[noun], list) or has(f"notebook.noun.{noun}")


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("noun", list(NOUNS))
def test_an_answer_shows_itself_in_the_reader_s_language(noun: str, lang: str) -> None:
    found = shown(ANSWERS[noun], noun, lang)
    text, page = repr(found), found._repr_html_()
    assert bool(CJK.search(text.replace("红队", ""))) is (lang == "zh")
    assert len(text.splitlines()) <= 4
    assert Tags(page).open == []
    assert not re.search(r"cli\.|word\.|notebook\.|\{[a-z]+\}", text + page)


@pytest.mark.parametrize("noun", list(NOUNS))
def test_what_others_wrote_is_neither_markup_nor_obeyed(noun: str) -> None:
    for answer in (ANSWERS[noun], spoiled(ANSWERS[noun])):
        found = shown(answer, noun, "en")
        tags = Tags(found._repr_html_())
        assert tags.tags <= {"table", "thead", "tbody", "tr", "th", "td", "p"}
        assert tags.attributes <= {"style", "class"}
        assert not re.search("[\x1b\u202e]", repr(found) + found._repr_html_())


def test_a_hostile_name_is_shown_as_it_is_written() -> None:
    page = shown([{**fake.ROW, "name": HOSTILE}], "workloads", "en")._repr_html_()
    assert "&lt;img src=x onerror=alert(1)&gt;&quot;&#x27;&amp;\\x1b[31m\\u202e\\n&lt;/td&gt;" in page


def test_a_list_prints_as_a_table_of_aligned_columns() -> None:
    rows = [{**fake.ROW, "name": "训练任务"}, {**fake.ROW, "id": "wl_22", "name": "b"}]
    lines = repr(shown(rows, "workloads", "en")).splitlines()
    assert lines[0].split()[:3] == ["ID", "NAME", "PROJECT"]
    assert columns(lines[1].partition("alpha")[0]) == columns(lines[2].partition("alpha")[0])


def test_one_workload_is_one_line() -> None:
    assert repr(shown(fake.FAILED, "workload", "en")).startswith("<workload wl_1  train-1  ")
    assert repr(shown(fake.FAILED, "workload", "zh")).startswith("<工作负载 wl_1  train-1  ")


def test_a_long_list_says_how_much_it_leaves_out() -> None:
    found = shown([fake.ROW] * 250, "workloads", "en")
    assert len(repr(found).splitlines()) == ROWS_OF_TEXT + 2
    assert f"… and {250 - ROWS_OF_TEXT} more" in repr(found)
    assert f"… and {250 - ROWS_OF_HTML} more" in found._repr_html_()
    assert "(none)" in repr(shown([], "workloads", "en"))


def test_a_part_of_a_list_is_a_table_too() -> None:
    found = shown([fake.ROW] * 3, "workloads", "zh")
    assert "项目" in repr(found[:2])
    assert found[0]["id"] == "wl_1"


def test_in_all_else_it_is_the_dictionary_or_the_list_that_the_server_gave() -> None:
    one, several = shown(fake.FAILED, "workload", "en"), shown([fake.ROW], "workloads", "en")
    for found, plain in ((one, fake.FAILED), (several, [fake.ROW])):
        assert found == plain
        assert json.loads(json.dumps(found)) == plain
        assert yaml.safe_load(yaml.safe_dump(found)) == plain
        assert yaml.safe_load(yaml.dump(found)) == plain
        assert msgspec.json.decode(msgspec.json.encode(found)) == plain
        for same in (copy.copy(found), copy.deepcopy(found), pickle.loads(pickle.dumps(found))):
            assert (same, repr(same)) == (plain, repr(found))


@pytest.mark.parametrize("noun", list(NOUNS))
def test_an_answer_of_another_release_is_shown_as_far_as_it_is_known(noun: str) -> None:
    for answer in ({}, {"id": None}, [{}], [None], []):
        found = shown(answer, noun, "en")
        assert repr(found)
        assert found._repr_html_()


def test_the_client_answers_in_its_own_language() -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=[fake.QUEUE]))
    client = Client("http://steelyard.test", lang="zh", transport=transport)
    assert "队列" in repr(client.queues())


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("训练", 4), ("e\u0301", 1), ("", 0)])
def test_a_wide_character_takes_two_columns(text: str, width: int) -> None:
    assert columns(text) == width


def test_a_line_is_cut_and_filled_to_its_width() -> None:
    assert cut("训练任务", 5) == "训练…"
    assert padded("训练任务", 6) == "训练… "
    assert padded("ab", 4, right=True) == "  ab"
    assert cut("abc", 0) == ""

"""What holds of the console's own files: texts in both languages, no inline style or script, equal tokens."""

from __future__ import annotations

import re
from importlib import resources

import pytest

from steelyard.locale import LANGUAGES
from steelyard.locale.catalogue import entry
from steelyard.model.lifecycle import Outcome, Phase

HERE = resources.files("steelyard.console")
TEMPLATES = {file.name: file.read_text("utf-8") for file in HERE.joinpath("templates").iterdir()}
MODULES = {file.name: file.read_text("utf-8") for file in HERE.iterdir() if file.name.endswith(".py")}
CSS = HERE.joinpath("static", "steelyard.css").read_text("utf-8")
SAID = re.compile(r"""\bsay\(\s*["']([a-z0-9_.-]+)["']""")


def test_every_sentence_that_a_page_says_is_there_in_both_languages() -> None:
    lacking = []
    for name, source in {**TEMPLATES, **MODULES}.items():
        for code in SAID.findall(source):
            if code.endswith("."):
                continue  # put together from a closed list; the pages themselves are looked at
            texts = entry(f"page_{code}")
            if name not in ("speech.py", "__init__.py") and (texts is None or set(texts) != set(LANGUAGES)):
                lacking.append(f"{name}: {code}")
    assert lacking == []


def test_every_phase_and_outcome_has_its_lead() -> None:
    wanted = [value.value for value in (*Phase, *Outcome) if value != Phase.FINISHED]
    assert [value for value in wanted if entry(f"page_workload.lead.{value}") is None] == []


@pytest.mark.parametrize(
    "pattern",
    [r"\sstyle\s*=", r"\son[a-z]+\s*=", r"<style", r"<script(?![^>]*\ssrc=)", r"https?://(?!www\.w3\.org/)"],
)
def test_no_template_has_what_the_policy_forbids(pattern: str) -> None:
    assert {name for name, source in TEMPLATES.items() if re.search(pattern, source)} == set()


def test_nothing_is_put_into_a_page_unescaped() -> None:
    assert {name for name, source in TEMPLATES.items() if re.search(r"\|\s*safe|autoescape", source)} == set()


def test_the_dark_colours_are_the_same_whether_the_system_or_the_reader_chose_them() -> None:
    by_system = CSS.split("@media (prefers-color-scheme: dark)")[1].split("{", 2)[2].split("}")[0]
    by_reader = CSS.split(':root[data-theme="dark"] {', 1)[1].split("}")[0]
    assert by_system.split() == by_reader.split()


def test_every_table_has_a_caption_and_its_heads_a_scope() -> None:
    for name, source in TEMPLATES.items():
        if name != "macros.html":
            assert "<table" not in source, f"{name}: use ui.table"
        assert [head for head in re.findall(r"<th\b[^>]*>", source) if "scope=" not in head] == [], name

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


TOKEN = re.compile(r"--([a-z0-9-]+):\s*(#[0-9a-f]{6})")
LIGHT = dict(TOKEN.findall(CSS.split("@media", 1)[0]))
DARK = dict(TOKEN.findall(CSS.split(':root[data-theme="dark"] {', 1)[1].split("}")[0]))
#: Text and what it stands on.
TEXT_ON = [
    *[
        (text, ground)
        for text in ("ink", "soft", "accent", "bad", "ok", "warn")
        for ground in ("card", "paper")
    ],
    *[(tone, f"{tone}-ground") for tone in ("ok", "bad", "warn", "run", "wait", "mute")],
    *[("ink", f"{tone}-ground") for tone in ("ok", "bad", "warn", "run", "mute")],
    ("ink", "sunk"),
    ("soft", "sunk"),
    ("accent", "accent-ground"),
    ("accent-ink", "accent"),
]


def luminance(colour: str) -> float:
    """Relative luminance of sRGB (WCAG 2.2)."""
    parts = [int(colour[index : index + 2], 16) / 255 for index in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_text_can_be_read_on_what_it_stands_on(theme: dict[str, str]) -> None:
    weak = {}
    for text, ground in TEXT_ON:
        high, low = sorted((luminance(theme[text]), luminance(theme[ground])), reverse=True)
        ratio = (high + 0.05) / (low + 0.05)
        if ratio < 4.5:
            weak[text, ground] = round(ratio, 2)
    assert weak == {}

"""The page: one file, no network, every language in it, and nothing in it may run but its own script."""

from __future__ import annotations

import base64
import re
from hashlib import sha256

from steelyard.reports.drawing.markup import el
from steelyard.reports.drawing.page import page

PAGE = page("T", {"en": el("h1", "Hello"), "zh": el("h1", "你好")}, "zh")


def test_all_languages_are_in_it_and_the_chosen_one_is_shown_first() -> None:
    assert "Hello" in PAGE
    assert "你好" in PAGE
    assert re.search(r'id="show-zh"[^>]* checked', PAGE)
    assert not re.search(r'id="show-en"[^>]* checked', PAGE)


def test_nothing_is_fetched() -> None:
    assert not re.search(r'(?:src|href)="(?!#)', PAGE)
    assert "@import" not in PAGE
    assert not re.search(r"url\((?!#)", PAGE)
    assert "default-src &#39;none&#39;" in PAGE


def test_its_policy_allows_its_own_script_and_no_other() -> None:
    script = re.search(r"<script>(.*?)</script>", PAGE, re.DOTALL)
    assert script is not None
    digest = base64.b64encode(sha256(script[1].encode()).digest()).decode()
    assert f"sha256-{digest}" in PAGE


def test_every_fill_of_the_drawings_has_a_colour() -> None:
    style = re.search(r"<style>(.*?)</style>", PAGE, re.DOTALL)
    assert style is not None
    for name in (
        "h1",
        "h6",
        "idle-schedulable",
        "idle-reserved",
        "unavailable-planned",
        "unknown",
        "s-running",
    ):
        assert f".f-{name}" in style[1]

"""Which language a reader gets."""

from __future__ import annotations

import pytest

from steelyard.locale import choose, negotiate


@pytest.mark.parametrize(
    ("arguments", "environ", "configured", "expected"),
    [
        ([], {}, None, "en"),
        ([], {"LANG": "zh_CN.UTF-8"}, None, "zh"),
        ([], {"LANG": "de_DE.UTF-8"}, None, "en"),
        ([], {"LC_ALL": "C", "LANG": "zh_CN.UTF-8"}, None, "en"),
        ([], {"LANG": "en_US"}, "zh", "zh"),
        ([], {"STEELYARD_LANG": "en", "LANG": "zh_CN"}, "zh", "en"),
        (["list", "--lang", "zh"], {"STEELYARD_LANG": "en"}, None, "zh"),
        (["--lang=zh", "list"], {}, None, "zh"),
        (["submit", "x", "--", "train", "--lang", "zh"], {}, None, "en"),
        (["list", "--lang"], {}, None, "en"),
        (["list", "--lang", "xx"], {"STEELYARD_LANG": "zh"}, None, "zh"),
    ],
)
def test_the_first_known_choice_counts(
    arguments: list[str], environ: dict[str, str], configured: str | None, expected: str
) -> None:
    assert choose(arguments, environ, configured) == expected


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, "en"),
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("en;q=0.5, zh;q=0.7", "zh"),
        ("fr, de;q=0.9", "en"),
        ("*", "en"),
        ("zh;q=0", "en"),
        ("zh;q=zzz", "en"),
        (",,,zh", "zh"),
        ("x" * 5000 + ",zh", "en"),
    ],
)
def test_a_browser_gets_what_it_prefers_and_nonsense_is_ignored(header: str | None, expected: str) -> None:
    assert negotiate(header) == expected

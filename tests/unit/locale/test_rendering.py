"""Templates: parameters formatted late, optional parts, and nothing that makes a sentence fail."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.locale.rendering import fill, placeholders


@pytest.mark.parametrize(
    ("template", "params", "expected"),
    [
        ("{a} of {b}", {"a": 1, "b": "x"}, "1 of x"),
        ("{a:quantity}", {"a": 1500, "resource": "gpu"}, "1.5"),
        ("{a:quantity}", {"a": 2048, "resource": "memory"}, "2 GiB"),
        ("{a:amount}", {"a": 512, "resource": "memory"}, "512 MiB of memory"),
        ("{a:amount}", {"a": 250}, "0.25 device(s)"),
        ("{a:duration}", {"a": 3_723_000_000}, "1h 02m"),
        ("{a:time}", {"a": 1_767_225_600_000_000}, "2026-01-01 00:00:00 UTC"),
        ("{a:instant}", {"a": 1_767_225_600_000_000}, "2026-01-01 00:00:00 UTC"),
        ("{a:instant}", {"a": 1_767_225_600_020_500}, "2026-01-01 00:00:00.0205 UTC"),
        ("{a:phase}", {"a": "timed"}, "timed"),
        ("{a:outcome}", {"a": "timed-out"}, "timed out"),
        ("{a:name}", {"a": "team/a"}, "a"),
        ("{a}", {}, "–"),
        ("x[[ of {a}]]", {}, "x"),
        ("x[[ of {a}]]", {"a": None}, "x"),
        ("x[[ of {a}]]", {"a": 0}, "x of 0"),
        ("x[[ of {a} and {b}]]", {"a": 1}, "x"),
    ],
)
def test_parameters_are_formatted(template: str, params: dict[str, object], expected: str) -> None:
    assert fill(template, params, "en") == expected


def test_null_is_a_dash_and_never_zero() -> None:
    assert fill("{a:quantity}", {"a": None, "resource": "gpu"}, "en") == "–"


def test_a_value_that_looks_like_a_template_is_not_filled_again() -> None:
    assert fill("{a}", {"a": "{b} [[x]]", "b": 1}, "en") == "{b} [[x]]"


def test_a_very_long_value_is_cut() -> None:
    assert len(fill("{a}", {"a": "x" * 10_000_000}, "en")) == 301


def test_several_words_of_a_closed_list_are_told_one_by_one() -> None:
    params = {"missing": "network, ipc, of-tomorrow"}
    assert fill("{missing:aspect}", params, "en") == "network, IPC, of-tomorrow"
    assert fill("{missing:aspect}", params, "zh") == "网络、进程间通信、of-tomorrow"


def test_placeholders_tell_optional_ones_apart() -> None:
    assert placeholders("{a}[[ {b:time}]]") == ({("a", "")}, {("b", "time")})


@given(
    st.dictionaries(
        st.sampled_from(["a", "b", "resource"]), st.none() | st.integers() | st.text() | st.booleans()
    ),
    st.sampled_from(["en", "zh"]),
)
def test_filling_never_fails(params: dict[str, object], lang: str) -> None:
    fill("{a:amount} {b:quantity} {a:time} {b:duration} {a:name} {b:phase}[[{b}]]", params, lang)

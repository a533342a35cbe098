"""Signatures are equal for failures of one kind."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.services.failure_signature import normalise, signature


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no checkpoint in /data/run-17/step-900", "no checkpoint in /data/run-18/step-7"),
        ("at 0xdeadbeef", "at 0x1"),
        ("member mb_0apjhbrnm0400 died", "member mb_0apjhbtq80400 died"),
        ("id 6f1c3a52-1111-4222-8333-444455556666", "id 7f1c3a52-1111-4222-8333-444455556666"),
        ("loss is 0.25  after 10 steps", "loss is 1.5 after 2 steps"),
    ],
)
def test_numbers_paths_and_ids_do_not_tell_failures_apart(one: str, other: str) -> None:
    assert signature("application", "exception", one) == signature("application", "exception", other)


def test_what_was_found_by_name_and_exit_codes_do() -> None:
    found = {
        signature("environment", "module-missing", "torch"),
        signature("environment", "module-missing", "numpy"),
        signature("application", "exit-code", None, 1),
        signature("application", "exit-code", None, 2),
        signature("application", "exit-signal", None, 1),
    }
    assert len(found) == 5


@given(st.text(max_size=300))
def test_any_text_has_a_signature_that_stays(text: str) -> None:
    assert signature("a", "b", text) == signature("a", "b", text)
    assert len(signature("a", "b", text)) == 16
    assert "\n" not in normalise(text)

"""Induced failures of all stages, here and simulated: told apart, and the tables of the docs current."""

from __future__ import annotations

from collections import Counter

import pytest

from steelyard.model.failures import Stage
from tests.failures.cases import load
from tools import failures

CASES = [*load("local"), *load("simulated")]


def test_there_are_sixty_cases_over_all_stages() -> None:
    stages = {case.truth[0] for case in CASES if case.truth is not None}
    assert len(CASES) >= 60
    assert stages == set(Stage) - {Stage.UNKNOWN}  # which is what is told where the truth is not found


@pytest.mark.requirement("F1", "F2", "F4", "F5", "F9", "F10", "F11", "F15")
def test_induced_failures_are_told_apart_and_the_docs_say_how() -> None:
    told = failures.induce()
    wrong = [(one.case.name, one.case.truth, one.kind) for one in told if one.result == "wrong"]
    found = Counter(one.result for one in told)
    assert wrong == []
    assert len(told) == len(CASES)
    assert found["unknown"] <= 2
    assert found["right"] >= 58
    for lang in failures.LANGUAGES:
        assert failures.filled(lang, told) == failures.page(lang).read_text(encoding="utf-8"), (
            f"docs/{lang}/failures.md is not what `make failures` writes"
        )

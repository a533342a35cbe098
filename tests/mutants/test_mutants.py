"""Each listed fault of the core turns its test red, which passes without it where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.mutants.mutants import ROOT, Mutant, is_caught, listed, run, with_fault

#: Run by `make test`; the rest with the long runs.
QUICK = {
    "a-service-replica-is-stopped-for-batch",
    "m18-a-gpu-request-is-served-from-a-cpu-pool",
    "what-is-kept-back-is-lent",
}


def cases() -> list[Any]:
    """All faults."""
    return [
        pytest.param(mutant, id=mutant.name, marks=() if mutant.name in QUICK else pytest.mark.soak)
        for mutant in listed()
    ]


@pytest.mark.parametrize("mutant", cases())
def test_the_fault_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    done = run(mutant.test, with_fault(mutant, tmp_path))
    assert is_caught(done), f"{mutant.says}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("mutant", listed(), ids=lambda mutant: mutant.name)
def test_the_fault_stands_where_it_is_said_to_and_its_test_is_there(mutant: Mutant) -> None:
    assert (ROOT / "src" / "steelyard" / mutant.file).read_text().count(mutant.old) == 1
    path, _, name = mutant.test.partition("::")
    assert f"def {name.partition('[')[0]}" in (ROOT / path).read_text()


def test_what_is_quick_is_listed() -> None:
    assert {mutant.name for mutant in listed()} >= QUICK

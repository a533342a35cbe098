"""Each listed fault of the core turns its test red, and the test passes without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.mutants import ROOT, Mutant, is_caught, listed, run, with_fault

MUTANTS = listed()


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_the_fault_is_noticed(mutant: Mutant, tmp_path: Path) -> None:
    done = run(mutant.test, with_fault(mutant, tmp_path))
    assert is_caught(done), f"{mutant.says}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.mark.parametrize("test", sorted({mutant.test for mutant in MUTANTS}))
def test_it_passes_without_the_fault(test: str) -> None:
    done = run(test, ROOT / "src")
    assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-2000:]}"

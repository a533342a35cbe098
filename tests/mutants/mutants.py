"""Runs a test against a copy of the product with one fault in it.

`mutants.yaml` lists the faults: `name`, `says` (what it is), `file` below `src/steelyard`, `old` text that
stands there just once, `new` text, and `test`, a node id that passes without the fault. A fault is caught
when that test fails on the copy; `no tests ran` or an error of collection does not count.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
LIST = Path(__file__).with_name("mutants.yaml")
_FAILED = 1  # pytest's exit status where tests ran and some failed


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault and who notices it."""

    name: str
    says: str
    file: str
    old: str
    new: str
    test: str


def listed() -> list[Mutant]:
    """All of them, in the order of the file. Raises TypeError for an entry with other fields."""
    return [Mutant(**entry) for entry in yaml.safe_load(LIST.read_text())]


def with_fault(mutant: Mutant, folder: Path) -> Path:
    """A copy of `src` with the fault. Raises ValueError where its text does not stand there just once."""
    source = folder / "src"
    shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    path = source / "steelyard" / mutant.file
    text = path.read_text()
    if text.count(mutant.old) != 1:
        raise ValueError(f"{mutant.name}: found {text.count(mutant.old)} times in {mutant.file}")
    path.write_text(text.replace(mutant.old, mutant.new))
    return source


def run(test: str, source: Path) -> subprocess.CompletedProcess[str]:
    """The test against a tree of sources."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", test]
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTEST_XDIST_WORKER", None)
    return subprocess.run(command, cwd=ROOT, env=environment, text=True, capture_output=True, check=False)


def is_caught(done: subprocess.CompletedProcess[str]) -> bool:
    """True when the test ran and failed, whether or not what it stood on then broke, too."""
    return done.returncode == _FAILED and " failed" in done.stdout.splitlines()[-1]

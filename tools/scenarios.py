"""Writes the table of docs/en/scenarios.md and docs/zh/scenarios.md: what users of queueing systems met.

The scenarios stand in docs/scenarios.csv. A test file `tests/scenarios/test_sNN_*.py` is that of scenario
S-NN; the column `elsewhere` names tests in other rooms. What has neither is shown as open.
`--check` writes nothing and fails where a page is stale.
"""

from __future__ import annotations

import ast
import csv
import sys
from dataclasses import dataclass
from pathlib import Path

from tools.tables import Table, main

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "scenarios.csv"
TESTS = ROOT / "tests" / "scenarios"
HEADS = {"en": ("scenario", "what must hold", "seen in", "tests"), "zh": ("场景", "必须成立", "见于", "测试")}
OPEN = {"en": "open", "zh": "未覆盖"}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the file."""

    id: str
    group: str
    en: str
    zh: str
    seen_in: str
    elsewhere: str


def scenarios() -> list[Scenario]:
    """All rows in order."""
    with ROWS.open(newline="", encoding="utf-8") as file:
        return [Scenario(**row) for row in csv.DictReader(file)]


def tests_of(scenario: Scenario) -> list[str]:
    """The tests of a scenario: files in tests/scenarios by its number, then what is named elsewhere."""
    number = scenario.id.removeprefix("S-")
    found = [
        f"{path.relative_to(ROOT)}::{name}"
        for path in sorted(TESTS.glob(f"test_s{number}_*.py"))
        for name in _functions(path)
    ]
    return found + scenario.elsewhere.split()


def _functions(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = [node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return [name for name in names if name.startswith("test_")]


def render(lang: str) -> str:
    """The table in a language."""
    rows = [HEADS[lang], ("---",) * len(HEADS[lang])]
    for scenario in scenarios():
        shown = "<br>".join(f"`{name}`" for name in tests_of(scenario)) or OPEN[lang]
        says = scenario.en if lang == "en" else scenario.zh
        rows.append((scenario.id, says, scenario.seen_in, shown))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


TABLE = Table(
    "scenarios",
    "<!-- scenario table: written by tools/scenarios.py -->",
    "<!-- end of the scenario table -->",
    render,
)


if __name__ == "__main__":
    sys.exit(main(TABLE, __doc__))

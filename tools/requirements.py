"""Writes docs/requirements.md: every row of docs/requirements.csv with the tests that prove it.

A test claims rows with `@pytest.mark.requirement("G3", "G4")`. A row that no test claims is shown as
open; nothing here decides that a row is met, it only says who claims so.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROWS = ROOT / "docs" / "requirements.csv"
PAGE = ROOT / "docs" / "requirements.md"


@dataclass(frozen=True)
class Requirement:
    """One row, its columns as in the file's header."""

    id: str
    chapter: str
    section: str
    origin: str
    statement: str
    zh: str
    proof: str

    @property
    def letter(self) -> str:
        """The chapter's letter."""
        return re.sub(r"\d+$", "", self.id)


def read_rows(path: Path = ROWS) -> list[Requirement]:
    """All rows in their order. Raises TypeError when a row has other columns than `Requirement`."""
    with open(path, newline="", encoding="utf-8") as file:
        return [Requirement(**row) for row in csv.DictReader(file)]


def collect_claims() -> dict[str, list[str]]:
    """Asks pytest which tests carry which markers. Raises RuntimeError where a file can't be collected."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "claims.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "--collect-only",
            "-qq",
            "-m",
            "",
            "-p",
            "no:cacheprovider",
        ]
        command += ["-p", "tests.support.requirement_collector", f"--requirements-to={target}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode or not target.exists():
            raise RuntimeError(f"the tests can't be collected:\n{done.stdout}{done.stderr}")
        claims: dict[str, list[str]] = json.loads(target.read_text(encoding="utf-8"))
        return claims


def unknown_ids(claims: Iterable[str], rows: Iterable[Requirement]) -> list[str]:
    """Ids that tests claim and no row has."""
    return sorted(set(claims) - {row.id for row in rows})


def render(rows: list[Requirement], claims: Mapping[str, list[str]]) -> str:
    """The page. It depends on rows and claims alone, so that the same tests give the same page."""
    proven = [row for row in rows if claims.get(row.id)]
    said = [row for row in rows if row.origin == "S"]
    said_proven = [row for row in proven if row.origin == "S"]
    lines = [
        "# Requirements and the tests that prove them",
        "",
        "Written by `make requirements` from `docs/requirements.csv` and the tests' markers; not by hand.",
        "",
        f"**{len(proven)} of {len(rows)} rows are claimed by a test, {len(rows) - len(proven)} are open.** "
        f"Of the {len(said)} that the user's text says itself (S), {len(said_proven)} are claimed; "
        f"of the {len(rows) - len(said)} derived from it (D), {len(proven) - len(said_proven)}.",
        "",
        "| | chapter | rows | claimed | open |",
        "|---|---|---:|---:|---:|",
    ]
    chapters = {row.letter: row.chapter for row in rows}
    for letter, chapter in chapters.items():
        own = [row for row in rows if row.letter == letter]
        done = sum(bool(claims.get(row.id)) for row in own)
        lines.append(f"| {letter} | {_cell(chapter)} | {len(own)} | {done} | {len(own) - done} |")
    for letter, chapter in chapters.items():
        lines += ["", f"## {letter}. {chapter}", "", "| ID | § | statement | 中文 | proof | tests |"]
        lines.append("|---|---|---|---|---|---|")
        lines += [_line(row, claims.get(row.id, [])) for row in rows if row.letter == letter]
    return "\n".join(lines) + "\n"


def _line(row: Requirement, tests: list[str]) -> str:
    named = "<br>".join(f"`{test.removeprefix('tests/')}`" for test in tests) or "**open**"
    place = f"{row.section} {row.origin}"
    return f"| {row.id} | {place} | {_cell(row.statement)} | {_cell(row.zh)} | {row.proof} | {named} |"


def _cell(text: str) -> str:
    """Text as it may stand in a table: a bar that is not escaped yet would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


def main() -> int:
    """Writes the page; exit status 1 when a marker names no row."""
    rows, claims = read_rows(), collect_claims()
    unknown = unknown_ids(claims, rows)
    if unknown:
        print(f"no such requirement: {', '.join(unknown)}", file=sys.stderr)
        for row in unknown:
            print(f"  {row}: {', '.join(claims[row])}", file=sys.stderr)
        return 1
    PAGE.write_text(render(rows, claims), encoding="utf-8")
    open_rows = sum(not claims.get(row.id) for row in rows)
    print(f"{PAGE.relative_to(ROOT)}: {len(rows)} rows, {len(rows) - open_rows} claimed, {open_rows} open")
    return 0


if __name__ == "__main__":
    sys.exit(main())

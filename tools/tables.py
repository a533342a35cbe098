"""Tables of the docs that are written from the code: between two marks of a page, in each language."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from steelyard.locale import LANGUAGES

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Table:
    """`name`: of the page, without its ending; `render`: the table in a language."""

    name: str
    begin: str
    end: str
    render: Callable[[str], str]

    def page(self, lang: str) -> Path:
        """The page that holds the table in this language."""
        return ROOT / "docs" / lang / f"{self.name}.md"

    def replaced(self, text: str, lang: str) -> str:
        """The page with the table of today. Raises ValueError where the marks are not there, once each."""
        if text.count(self.begin) != 1 or text.count(self.end) != 1:
            raise ValueError(f"docs/{lang}/{self.name}.md: the marks of the table are not there, once each")
        before, _, rest = text.partition(self.begin)
        _, _, after = rest.partition(self.end)
        return f"{before}{self.begin}\n\n{self.render(lang)}\n\n{self.end}{after}"


def main(table: Table, description: str | None) -> int:
    """Writes the pages, or with `--check` exits 1 when one is stale."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing, fail where a page is stale")
    check = parser.parse_args().check
    stale = []
    for lang in LANGUAGES:
        path = table.page(lang)
        found = path.read_text(encoding="utf-8")
        fresh = table.replaced(found, lang)
        if fresh != found:
            stale.append(str(path.relative_to(ROOT)))
            if not check:
                path.write_text(fresh, encoding="utf-8")
    if stale:
        print(("stale: " if check else "written: ") + ", ".join(stale))
    return 1 if check and stale else 0

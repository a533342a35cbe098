"""`report.html`: one file that says what happened, for people who were not there; made of API answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from steelyard.demo.expect import Result, Seen
from steelyard.demo.report.build import build
from steelyard.demo.report.facts import gather, to_json

__all__ = ["build", "write_report"]


def write_report(out: Path, seen: Seen, results: Sequence[Result], lang: str, began: int) -> Path:
    """Writes `report.json` and, made of it, `report.html`; the path of the latter."""
    facts = gather(seen, results, lang, began, time.time_ns() // 1000)
    (out / "report.json").write_text(to_json(facts), encoding="utf-8")
    page = out / "report.html"
    page.write_text(build(facts), encoding="utf-8")
    return page

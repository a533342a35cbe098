"""The report of a trial for people, as plain text in one language, and checks as JSON with both."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from steelyard.locale import LANGUAGES, text, word
from steelyard.poc.plan import Plan
from steelyard.poc.records import Check, Said, Status, summary_of
from steelyard.poc.scenario import Scenario

_MARKS = {Status.PASS: "+", Status.FAIL: "x", Status.PENDING: "?", Status.NOT_APPLICABLE: "-"}
#: A list that shows no occupation is half of what is asked for: the brief's own words say so.
_OCCUPATION = ("1.6", "1.7")


def as_json(check: Check) -> dict[str, Any]:
    """A check as it stands in checks.json: what is expected and what was seen also in words."""
    told: dict[str, Any] = msgspec.to_builtins(check)
    for key, said in (("expected", check.expected), ("actual", check.actual)):
        told[key]["text"] = {lang: sentence(said, lang) for lang in LANGUAGES}
    return told


def sentence(said: Said, lang: str) -> str:
    """What is expected, or was seen, in a language."""
    params = {key: "–" if value is None else value for key, value in said.params.items()}
    return text(said.code, params, lang)


def report_text(scenario: Scenario, plan: Plan, checks: Iterable[Check], lang: str) -> str:
    """The whole report."""
    listed = list(checks)
    summary = summary_of(listed)
    counts = summary["counts"]
    lines = [
        text(f"poc.{scenario.scenario}.title", None, lang),
        text("poc.report.plan", {"plan": plan.name, "version": scenario.version}, lang),
        text(
            "poc.report.verdict",
            {"verdict": word("poc-status", summary["verdict"], lang), "passed": counts["pass"],
             "failed": counts["fail"], "pending": counts["pending"], "all": len(listed)},
            lang,
        ),
    ]  # fmt: skip
    if summary["simulated"]:
        lines.append(text("poc.report.simulated", {"count": len(summary["simulated"])}, lang))
    if any(check.step in _OCCUPATION and check.status is Status.FAIL for check in listed):
        lines.append(text("poc.report.half", None, lang))
    steps = dict.fromkeys(check.step for check in listed)
    for step in steps:
        lines += ["", text(f"poc.{scenario.scenario}.step.{step}", None, lang)]
        for check in (one for one in listed if one.step == step):
            lines += _lines(check, lang)
    return "\n".join(lines) + "\n"


def line_of(check: Check, lang: str) -> str:
    """A check in one line."""
    status = word("poc-status", check.status.value, lang)
    if check.reason is not None:
        status = f"{status} ({word('poc-reason', check.reason, lang)})"
    mark = f" [{text('poc.report.mark', None, lang)}]" if check.simulated else ""
    return f"  {_MARKS[check.status]} {check.id}{mark}: {status}"


def _lines(check: Check, lang: str) -> list[str]:
    expected = text("poc.report.expected", {"text": sentence(check.expected, lang)}, lang)
    seen = text("poc.report.seen", {"text": sentence(check.actual, lang)}, lang)
    rows = text(
        "poc.report.rows",
        {"rows": " ".join(check.requirement_rows), "evidence": ", ".join(check.evidence) or "–"},
        lang,
    )
    return [line_of(check, lang), f"      {expected}", f"      {seen}", f"      {rows}"]

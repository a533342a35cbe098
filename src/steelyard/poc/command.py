"""`steelyard poc run`: a scenario of the kit against a server, told line by line as it goes.

main(client, connect, scenario, plan, out, lang) -> exit status: 0 passed, 1 failed, 6 pending
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from steelyard.client import Client
from steelyard.locale import text, word
from steelyard.model.errors import InvalidError
from steelyard.poc.folder import Folder
from steelyard.poc.plan import read_plan
from steelyard.poc.records import Check, Status, summary_of
from steelyard.poc.report import line_of
from steelyard.poc.run import run
from steelyard.poc.scenario import SCENARIOS, StepSpec, load_scenario
from steelyard.poc.steelyard_route import SteelyardRoute

EXIT = {Status.PASS: 0, Status.FAIL: 1, Status.PENDING: 6}


def main(
    client: Client, connect: Callable[[], Client], scenario: str, plan: Path, out: Path, lang: str,
    as_data: bool = False,
) -> int:  # fmt: skip
    """Runs it. `connect` opens another connection; `as_data`: the summary as JSON in place of lines.

    Raises SteelyardError where it can't begin.
    """
    if scenario not in SCENARIOS:
        raise InvalidError(
            "argument-invalid", name="SCENARIO", given=scenario[:60], expected="|".join(SCENARIOS)
        )
    read = read_plan(plan)

    def say(step: StepSpec, checks: list[Check]) -> None:
        if not as_data:
            print(text(f"poc.{scenario}.step.{step.id}", None, lang))
            print("\n".join(line_of(check, lang) for check in checks), flush=True)

    checks = run(load_scenario(scenario), read, SteelyardRoute(client, connect), Folder(out), say)
    summary = summary_of(checks)
    if as_data:
        print(json.dumps(summary, indent=2))
    else:
        _conclude(summary, len(checks), out / f"report.{lang}.txt", lang)
    return EXIT[Status(summary["verdict"])]


def _conclude(summary: dict[str, Any], count: int, report: Path, lang: str) -> None:
    counts, verdict = summary["counts"], word("poc-status", summary["verdict"], lang)
    params = {
        "verdict": verdict, "passed": counts["pass"], "failed": counts["fail"], "pending": counts["pending"],
        "all": count,
    }  # fmt: skip
    print(text("poc.report.verdict", params, lang))
    print(text("poc.report.where", {"path": str(report)}, lang))

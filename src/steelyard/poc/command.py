"""`steelyard poc run`: a scenario of the kit against a server, told line by line as it goes.

main(client, connect, scenario, plan, out, lang) -> exit status: 0 passed, 1 failed, 6 pending
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

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
    client: Client, connect: Callable[[], Client], scenario: str, plan: Path, out: Path, lang: str
) -> int:
    """Runs it. `connect` opens another connection. Raises SteelyardError where it can't begin."""
    if scenario not in SCENARIOS:
        raise InvalidError(
            "argument-invalid", name="SCENARIO", given=scenario[:60], expected="|".join(SCENARIOS)
        )
    read = read_plan(plan)

    def say(step: StepSpec, checks: list[Check]) -> None:
        print(text(f"poc.{scenario}.step.{step.id}", None, lang))
        for check in checks:
            print(line_of(check, lang), flush=True)

    checks = run(load_scenario(scenario), read, SteelyardRoute(client, connect), Folder(out), say)
    summary = summary_of(checks)
    counts = summary["counts"]
    verdict = word("poc-status", summary["verdict"], lang)
    params = {
        "verdict": verdict, "passed": counts["pass"], "failed": counts["fail"], "pending": counts["pending"],
        "all": len(checks),
    }  # fmt: skip
    print(text("poc.report.verdict", params, lang))
    print(text("poc.report.where", {"path": str(out / f"report.{lang}.txt")}, lang))
    return EXIT[Status(summary["verdict"])]

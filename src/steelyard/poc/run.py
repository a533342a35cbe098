"""Runs a scenario against a candidate: steps in order, then verdicts by rule, then the report.

The folder then holds plan.json, the evidence of each step under runs/, observe.jsonl with every look at the
inventory, checks.json, summary.json, report.zh.txt, report.en.txt, and files.json with the digest of each.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator

from steelyard.client import ApiError
from steelyard.locale import LANGUAGES
from steelyard.model.errors import SteelyardError
from steelyard.poc import steps_act, steps_look
from steelyard.poc.candidate import Candidate, CapabilityMissing
from steelyard.poc.folder import Folder
from steelyard.poc.plan import Plan
from steelyard.poc.records import (
    Check,
    FailReason,
    Outcome,
    PendingReason,
    Said,
    Status,
    status_of,
    summary_of,
)
from steelyard.poc.report import as_json, report_text
from steelyard.poc.rules import RULES
from steelyard.poc.scenario import CheckSpec, Scenario, StepSpec
from steelyard.poc.trial import Json, Trial

VERBS: dict[str, Callable[[Trial], Json]] = {
    "register": steps_look.register,
    "compare": steps_look.compare,
    "provenance": steps_look.provenance,
    "label": steps_look.label,
    "misfit": steps_look.misfit,
    "start": steps_act.start,
    "end": steps_act.end,
    "cordon": steps_act.cordon,
    "break": steps_act.break_device,
    "mend": steps_act.mend,
    "occupy": steps_act.occupy,
    "wrong-class": steps_act.wrong_class,
    "past": steps_look.past,
    "sum": steps_look.sums,
}
_NOT_THERE, _NO_ROUTE = (
    (405, 501),
    ("route-unknown", "http-404"),
)  # an object that is not there is no such case
_CLOCK = 2_000_000  # µs that both clocks may differ
Say = Callable[[StepSpec, list[Check]], None]


def run(
    scenario: Scenario, plan: Plan, candidate: Candidate, folder: Folder, say: Say = lambda step, found: None
) -> list[Check]:
    """The whole run. What a step can't do is a check that failed or is pending, never the end of the run."""
    trial = Trial(plan, candidate, folder)
    folder.write("plan.json", plan)
    checks = _preconditions(trial, scenario)
    with trial.later:
        for step in scenario.steps:
            trial.step = step.id
            failed = _step(trial, step)
            found = list(_judge(trial, scenario, step, failed))
            checks += found
            say(step, found)
    folder.write("checks.json", [as_json(check) for check in checks])
    folder.write("summary.json", {"scenario": scenario.scenario, "mark": trial.mark, **summary_of(checks)})
    for lang in LANGUAGES:
        text = report_text(scenario, plan, checks, lang)
        folder.write_bytes(f"report.{lang}.txt", text.encode())
    folder.write("files.json", folder.digests())
    return checks


def _step(trial: Trial, step: StepSpec) -> Outcome | None:
    """Takes a step; the outcome of all its checks where it could not be taken."""
    try:
        trial.seen[step.id] = VERBS[step.verb](trial)
    except CapabilityMissing as error:
        return _missing(str(error))
    except ApiError as error:
        if error.status in _NOT_THERE or error.code in _NO_ROUTE:
            return _missing(f"{error.status} {error.code}")
        said = Said("poc.seen.refused", {"code": error.code, "text": error.text[:200]})
        return Outcome(ok=False, actual=said, reason=FailReason.CONTRADICTED)
    except (SteelyardError, OSError, subprocess.SubprocessError) as error:
        said = Said("poc.seen.not-run", {"error": f"{type(error).__name__}: {error}"[:200]})
        return Outcome(ok=None, actual=said, reason=PendingReason.EVIDENCE_INCOMPLETE)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # an answer that has not the shape it should have shows nothing
        said = Said("poc.seen.unreadable", {"error": f"{type(error).__name__}: {error}"[:200]})
        return Outcome(ok=None, actual=said, reason=PendingReason.EVIDENCE_INCOMPLETE)
    return None


def _missing(words: str) -> Outcome:
    said = Said("poc.seen.capability-missing", {"words": words[:200]})
    return Outcome(ok=False, actual=said, reason=FailReason.CAPABILITY_MISSING)


def _judge(trial: Trial, scenario: Scenario, step: StepSpec, failed: Outcome | None) -> Iterator[Check]:
    for spec in step.checks:
        classes: tuple[str | None, ...] = (None,)
        if spec.each and failed is None:
            seen = trial.seen[step.id]
            classes = tuple(seen)
        for device_class in classes:
            outcome = failed or _apply(trial, step, spec, device_class)
            yield _check(trial, scenario, step, spec, device_class, outcome)


def _apply(trial: Trial, step: StepSpec, spec: CheckSpec, device_class: str | None) -> Outcome:
    try:
        return RULES[spec.rule](trial.seen[step.id], trial.plan, device_class or "")
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        said = Said("poc.seen.unreadable", {"error": f"{type(error).__name__}: {error}"[:200]})
        return Outcome(ok=None, actual=said, reason=PendingReason.EVIDENCE_INCOMPLETE)


def _check(
    trial: Trial, scenario: Scenario, step: StepSpec, spec: CheckSpec, device_class: str | None,
    outcome: Outcome,
) -> Check:  # fmt: skip
    status, reason = status_of(outcome)
    paths = [trial.path(name) for name in step.evidence]
    evidence = tuple(path for path in paths if (trial.folder.path / path).exists())
    if status is Status.PASS and len(evidence) < len(step.evidence):
        status, reason = Status.PENDING, PendingReason.EVIDENCE_INCOMPLETE
    pointer = "" if device_class is None else f"#/{device_class}"
    return Check(
        id=".".join(filter(None, (scenario.scenario, step.id, spec.id, device_class))),
        requirement_rows=spec.rows, scenario=scenario.scenario, step=step.id,
        preconditions=(*scenario.preconditions, *step.preconditions), role=step.role,
        expected=Said(f"poc.expect.{spec.rule}", {"class": device_class}), actual=outcome.actual,
        status=status, reason=None if reason is None else str(reason),
        evidence=tuple(f"{path}{pointer}" for path in evidence), rule=spec.rule, rule_version=spec.version,
        seen_by=outcome.seen_by,
        simulated=outcome.simulated, mandatory=outcome.mandatory,
    )  # fmt: skip


# ---- preconditions


def _preconditions(trial: Trial, scenario: Scenario) -> list[Check]:
    plan, kinds = trial.plan, set(trial.plan.classes())
    nodes = {(group.cluster, node) for group in plan.scope for node in group.node_names()}
    named = {group.observer for group in plan.scope}
    places = {
        "device_probe": plan.observers.tools,
        "kernel": plan.observers.root,
        "simulation": next(iter(plan.observers.simulations), None),
    }
    try:
        described = trial.candidate.describe()
        apart = abs(trial.clock() - int(described["clock"]))
    except (SteelyardError, CapabilityMissing) as error:
        described, apart = {"error": str(error)[:200]}, _CLOCK + 1
    held = {
        "scope-listed": bool(plan.scope),
        "classes-in-scope": {"gpu", "npu", "cpu"} <= kinds,
        "two-nodes": len(nodes) > 1,
        "observers-named": all(places[name] for name in named),
        "clocks-agree": apart <= _CLOCK,
    }
    path = trial.keep("preconditions.json", {"candidate": described, "apart": apart, "held": held})
    return [
        Check(
            id=f"{scenario.scenario}.1.0.{name}", requirement_rows=("M7",), scenario=scenario.scenario,
            step="1.0", preconditions=(), role="platform-operator", expected=Said(f"poc.expect.{name}"),
            actual=Said("poc.seen.held" if ok else "poc.seen.held-not"),
            status=Status.PASS if ok else Status.PENDING,
            reason=None if ok else PendingReason.EVIDENCE_INCOMPLETE.value, evidence=(path,),
            rule=name, rule_version=1, seen_by=(), simulated=False, mandatory=True,
        )
        for name, ok in held.items()
        if name in scenario.preconditions
    ]  # fmt: skip

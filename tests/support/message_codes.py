"""Every code that a reader may meet, found in the source: `python -m tests.support.message_codes` lists
those without a text.

Looks at calls of the error classes with a literal code, and at the closed lists of the nouns.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from steelyard.locale import catalogue
from steelyard.model import failures, lifecycle, policy, reasons, resources, workloads
from steelyard.scheduling.factors import FactorName
from steelyard.scheduling.what_if import Fate
from steelyard.services.failure_catalogue import load_catalogue

SOURCE = Path(__file__).resolve().parents[2] / "src" / "steelyard"
ROOT_ERROR = "SteelyardError"
#: A code of several words, as engines answer them beside paths and other texts.
CODE = re.compile(r"[a-z]+(?:-[a-z]+)+")
#: The verifier is one file for strangers and carries its own texts.
EXCEPT = {"evidence/verify.py"}
#: First words of codes that have a file of their own.
FILES = {path.stem for path in (SOURCE / "locale" / "texts").glob("*.json")} - {"error"}


@dataclass(slots=True)
class Site:
    """Where a code is raised, and the names of the parameters it is given; None: not known."""

    where: str
    params: set[str] | None


@dataclass(slots=True)
class Found:
    """All sites of each code."""

    sites: dict[str, list[Site]] = field(default_factory=lambda: defaultdict(list))

    def codes(self) -> set[str]:
        """The codes."""
        return set(self.sites)


def trees() -> dict[str, ast.Module]:
    """Every file of ours, by its path below the package."""
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name not in EXCEPT:
            found[name] = ast.parse(path.read_text(encoding="utf-8"), filename=name)
    return found


def error_classes(files: dict[str, ast.Module]) -> set[str]:
    """Names of SteelyardError and of all that inherit from it."""
    bases: dict[str, set[str]] = {}
    for tree in files.values():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {_name(base) for base in node.bases}
    found = {ROOT_ERROR}
    while new := {name for name, above in bases.items() if above & found} - found:
        found |= new
    return found


def error_codes() -> Found:
    """Codes of errors with the parameters that each site gives."""
    files, found = trees(), Found()
    classes = error_classes(files)
    for name, tree in files.items():
        for call in _calls(tree):
            if _name(call.func) in classes and call.args and (code := _literal(call.args[0])):
                keywords = {keyword.arg for keyword in call.keywords}
                known = None if None in keywords else {k for k in keywords if k is not None}
                found.sites[code].append(Site(f"{name}:{call.lineno}", known))
    return found


def said_codes() -> dict[str, str]:
    """Codes that are asked for by name, with the first place: of sentences, problems, warnings, doctor."""
    found: dict[str, str] = {}
    for name, tree in trees().items():
        ours = _imports_text(tree)
        for call in _calls(tree):
            if code := _said(name, call, ours):
                found.setdefault(code, f"{name}:{call.lineno}")
        for code in _table(tree, "_OF_STATUS") if name.startswith("api/") else ():
            found.setdefault(code, name)
    return found


def _said(name: str, call: ast.Call, imports_text: bool) -> str | None:
    function, position = _name(call.func), 2 if _name(call.func) == "Check" else 0
    literal = _literal(call.args[position]) if len(call.args) > position else None
    if literal is None:
        return None
    if function == "Check" and name == "services/doctor.py":
        return f"doctor.{literal}"
    if (function == "problem" and name.startswith("api/")) or function == "Warned":
        return literal
    if function == "text" and isinstance(call.func, ast.Name) and imports_text:
        return literal
    dotted = "." in literal and literal.partition(".")[0] in FILES and " " not in literal
    return literal if dotted and function in ("text", "say", "note", "tell") else None


def _imports_text(tree: ast.Module) -> bool:
    return any(
        node.module == "steelyard.locale" and any(alias.name == "text" for alias in node.names)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
    )


def _table(tree: ast.Module, name: str) -> list[str]:
    """Literal values of a dictionary that a module gives a name."""
    return [
        code
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        if _name(node.targets[0]) == name
        for value in node.value.values
        if (code := _literal(value))
    ]


def failure_codes() -> set[str]:
    """Codes of verdicts: those of the catalogue's rules."""
    return load_catalogue().codes()


def engine_codes() -> set[str]:
    """Every code by which an engine, or the control plane in its place, says how something failed."""
    found: set[str] = set()
    for name, tree in trees().items():
        if name.startswith(("engines/", "control/")):
            for call in _calls(tree):
                found |= _failures(call)
        if name.startswith("engines/"):
            found |= {code for node in ast.walk(tree) for code in _returned(node) if CODE.fullmatch(code)}
    return found


def _returned(node: ast.AST) -> Iterator[str]:
    """Literals that a function answers as a code, alone or in a pair, or gives the name `code`."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Return) and node.value is not None:
        values = list(node.value.elts[:2]) if isinstance(node.value, ast.Tuple) else [node.value]
    elif isinstance(node, ast.Assign) and _name(node.targets[0]) == "code":
        values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
    yield from (code for value in values if (code := _literal(value)))


def _failures(call: ast.Call) -> set[str]:
    """Codes in calls that say how something failed: by position, or as `failure=`."""
    place = {"Verdict": 1, "Failure": 1, "Refused": 2, "Refusal": 0}.get(_name(call.func))
    nodes = [keyword.value for keyword in call.keywords if keyword.arg == "failure"]
    if place is not None and len(call.args) > place:
        nodes.append(call.args[place])
    return {code for node in nodes if (code := _literal(node))}


def closed_lists() -> dict[str, list[str]]:
    """Kind of word → the values that it must have a text for."""
    return {
        "phase": [item.value for item in lifecycle.Phase],
        "outcome": [item.value for item in lifecycle.Outcome],
        "sub-stage": [item.value for item in lifecycle.SubStage],
        "unavailable": [item.value for item in resources.UnavailableReason],
        "availability": [item.value for item in resources.Availability],
        "class": [item.value for item in resources.DeviceClass],
        "amount": [item.value for item in resources.DeviceClass],
        "provenance": [item.value for item in resources.Provenance],
        "engine": [item.value for item in resources.EngineKind],
        "kind": [item.value for item in workloads.WorkloadKind],
        "queue-order": [item.value for item in policy.QueueOrder],
        "strategy": [item.value for item in policy.QueueingStrategy],
        "factor": [item.value for item in FactorName],
        "fate": [item.value for item in Fate],
        "wait": sorted(set(reasons.WAIT_SLICE.values())),
        "stage-time": list(lifecycle.STAGE_TIMES),
        "check": [f"CK{number}" for number in range(1, 10)],
        "stage": [item.value for item in failures.Stage],
        "group": [item.value for item in failures.Group],
        "responsible": [item.value for item in failures.Party],
        "retry": [item.value for item in failures.Retry],
        "confidence": [item.value for item in failures.Confidence],
    }


def missing() -> list[str]:
    """Codes without a text, sorted, each with the first place that needs it."""
    found = error_codes()
    lacking = [f"{code}  ({found.sites[code][0].where})" for code in found.codes() if not catalogue.has(code)]
    lacking += [f"{code}  ({where})" for code, where in said_codes().items() if not catalogue.has(code)]
    lacking += [f"reason.{c.value}" for c in reasons.ReasonCode if not catalogue.has(f"reason.{c.value}")]
    lacking += [f"verdict.{code}" for code in failure_codes() if not catalogue.has(f"verdict.{code}")]
    lacking += [
        f"verdict.action.{rule.action}"
        for rule in load_catalogue().rules
        if not catalogue.has(f"verdict.action.{rule.action}")
    ]
    lacking += [
        f"word.{kind}.{value}"
        for kind, values in closed_lists().items()
        for value in values
        if not catalogue.has(f"word.{kind}.{value}")
    ]
    return sorted(lacking)


def _calls(tree: ast.Module) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    return node.id if isinstance(node, ast.Name) else ""


def _literal(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


if __name__ == "__main__":
    print("\n".join(missing()))

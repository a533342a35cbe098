"""The catalogue of failures as it is read from `failure_rules.yaml`, checked, with the digest that names it.

A rule that could let a program's own words shift the blame is refused here: see `_check_line`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib import resources
from typing import Any

import yaml

from steelyard.model.errors import InvalidError
from steelyard.model.failures import Confidence, Group, Party, Retry, Stage

SUPPORTED_VERSION = 1
#: Kinds of signals with the confidence that each gives, strongest first.
SIGNALS = {
    "refusal": Confidence.CERTAIN,
    "control": Confidence.CERTAIN,
    "engine": Confidence.HIGH,
    "signal": Confidence.HIGH,
    "shell": Confidence.MEDIUM,  # a program may exit with such a code by itself
    "line": Confidence.MEDIUM,  # a program prints what it likes
    "exit": Confidence.HIGH,
}
ANY = "any"
#: What lines may choose among.
_PRINTED_STAGES = frozenset({Stage.ENVIRONMENT, Stage.APPLICATION})
_PRINTED_GROUPS = frozenset({Group.ENVIRONMENT, Group.BUSINESS})
_KEYS = frozenset({"id", "when", "then", "generic", "traceback", "exit_only"})
_THEN = frozenset({"stage", "code", "group", "action", "retry", "owner", "confidence"})
#: Repetitions inside repetitions are what makes a pattern explode.
_NESTED = re.compile(r"[+*}]\)[+*{]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. `when`: kind of signal → its values; a line's value is its pattern."""

    id: str
    when: Mapping[str, frozenset[str] | str]
    stage: Stage
    code: str
    group: Group
    responsible: Party
    action: str
    retry: Retry
    confidence: Confidence | None
    generic: bool = False
    traceback: bool = False
    exit_only: frozenset[int] = frozenset()
    pattern: re.Pattern[str] | None = None

    def matches(self, kind: str, value: str | int) -> bool:
        """Whether a value of a kind of signal is one of this rule's."""
        wanted = self.when.get(kind)
        return wanted is not None and (wanted == ANY or str(value) in wanted)

    def certainty(self, kind: str) -> Confidence:
        """How certain the rule is where this kind of signal made it hold."""
        return self.confidence or SIGNALS[kind]


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All rules, in order. `name` is version and digest: what a verdict is held against later."""

    version: int
    name: str
    owners: Mapping[Stage, Party]
    rules: tuple[Rule, ...]

    def first(self, kind: str, value: str | int) -> Rule | None:
        """The first rule for a value; rules for `any` come last."""
        found = [rule for rule in self.rules if rule.matches(kind, value)]
        exact = [rule for rule in found if rule.when[kind] != ANY]
        return exact[0] if exact else found[0] if found else None

    def lines(self) -> tuple[Rule, ...]:
        """The rules that look at lines of a log."""
        return tuple(rule for rule in self.rules if rule.pattern is not None)

    def codes(self) -> set[str]:
        """Every code that a verdict can have by a rule."""
        return {rule.code for rule in self.rules}


@lru_cache(maxsize=1)
def load_catalogue() -> Catalogue:
    """The catalogue of this program. Raises InvalidError for a rule that may not stand."""
    text = resources.files("steelyard.services").joinpath("failure_rules.yaml").read_text(encoding="utf-8")
    return parse_catalogue(text)


def parse_catalogue(text: str) -> Catalogue:
    """A catalogue from its YAML. Raises InvalidError `catalogue-invalid` with the name of what is wrong."""
    raw = yaml.safe_load(text)
    if raw["version"] != SUPPORTED_VERSION:
        raise InvalidError("catalogue-invalid", name="version")
    owners = {Stage(stage): Party(party) for stage, party in raw["owners"].items()}
    if set(owners) != set(Stage):
        raise InvalidError("catalogue-invalid", name="owners")
    rules = tuple(_rule(entry, owners) for entry in raw["rules"])
    ids = [rule.id for rule in rules]
    if len(set(ids)) != len(ids):
        raise InvalidError("catalogue-invalid", name="id")
    digest = sha256(text.encode()).hexdigest()[:12]
    return Catalogue(raw["version"], f"{raw['version']}-{digest}", owners, rules)


def _rule(raw: Mapping[str, Any], owners: Mapping[Stage, Party]) -> Rule:
    name, then = str(raw.get("id")), raw["then"]
    if not raw.keys() <= _KEYS or not then.keys() <= _THEN or not raw["when"].keys() <= SIGNALS.keys():
        raise InvalidError("catalogue-invalid", name=name)
    try:
        stage = Stage(then["stage"])
        rule = Rule(
            id=name,
            when={kind: _values(kind, value) for kind, value in raw["when"].items()},
            stage=stage,
            code=then["code"],
            group=Group(then["group"]),
            responsible=Party(then.get("owner", owners[stage])),
            action=then["action"],
            retry=Retry(then["retry"]),
            confidence=Confidence(then["confidence"]) if "confidence" in then else None,
            generic=bool(raw.get("generic", False)),
            traceback=bool(raw.get("traceback", False)),
            exit_only=frozenset(raw.get("exit_only", ())),
            pattern=re.compile(raw["when"]["line"], re.ASCII) if "line" in raw["when"] else None,
        )
    except (ValueError, KeyError, re.error) as error:
        raise InvalidError("catalogue-invalid", name=name) from error
    if rule.pattern is not None:
        _check_line(rule)
    return rule


def _values(kind: str, value: Any) -> frozenset[str] | str:
    if kind == "line" or value == ANY:
        return str(value)
    if not isinstance(value, Iterable) or isinstance(value, str):
        raise ValueError(kind)
    return frozenset(str(one) for one in value)


def _check_line(rule: Rule) -> None:
    """What a program prints chooses among the program's own codes and its environment's, and no surer."""
    assert rule.pattern is not None
    honest = rule.stage in _PRINTED_STAGES and rule.group in _PRINTED_GROUPS and rule.confidence is None
    alone = set(rule.when) == {"line"}
    if not (honest and alone) or _NESTED.search(rule.pattern.pattern):
        raise InvalidError("catalogue-invalid", name=rule.id)

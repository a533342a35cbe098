"""The catalogue of failures: every code has a rule, and no rule lets a program's words shift the blame."""

from __future__ import annotations

import pytest

from steelyard.engines.simulated.faults import STAGE_FAULTS
from steelyard.locale import LANGUAGES
from steelyard.locale import catalogue as texts
from steelyard.model.errors import InvalidError
from steelyard.model.failures import Group, Stage
from steelyard.model.reasons import ReasonCode
from steelyard.services.failure_catalogue import load_catalogue, parse_catalogue
from tests.support.message_codes import engine_codes

OWNERS = "version: 1\nowners:\n" + "".join(f"  {stage}: platform\n" for stage in Stage)
RULE = """rules:
- id: one
  when: {%s}
  then: {stage: %s, code: x, group: %s, action: retry, retry: retry%s}
"""
LINE = 'line: "x"'
#: Said at submit: why a request is turned away.
AT_SUBMIT = (
    ReasonCode.INVALID_REQUEST, ReasonCode.MISSING_GRANT, ReasonCode.EXCEEDS_MAX_QUOTA,
    ReasonCode.EXCEEDS_CAPACITY, ReasonCode.NO_MATCHING_FLAVOR, ReasonCode.NO_ROUTE, ReasonCode.NO_NAMESPACE,
    ReasonCode.NO_QUEUE, ReasonCode.OVER_LIMIT, ReasonCode.LABEL_UNKNOWN, ReasonCode.LABEL_MISMATCH,
    ReasonCode.POOL_NOT_ADMITTING, ReasonCode.POOL_CLOSED, ReasonCode.LENDING_UNVERIFIED,
)  # fmt: skip


@pytest.mark.requirement("F1", "F11")
def test_every_failure_that_an_engine_can_give_has_a_rule() -> None:
    catalogue = load_catalogue()
    codes = engine_codes() | {code for _, code in STAGE_FAULTS.values()}
    found = {code: catalogue.first("engine", code) for code in codes}
    assert [code for code, rule in found.items() if rule is None or rule.code == "other"] == []


@pytest.mark.requirement("F14")
def test_every_reason_to_turn_a_request_away_has_a_rule() -> None:
    assert [code for code in AT_SUBMIT if load_catalogue().first("refusal", code) is None] == []


@pytest.mark.requirement("F6", "F13")
def test_every_stage_has_an_owner_and_every_rule_an_action_with_its_text() -> None:
    catalogue = load_catalogue()
    assert set(catalogue.owners) == set(Stage)
    lacking = [
        rule.id
        for rule in catalogue.rules
        if not texts.has(f"verdict.action.{rule.action}") or not texts.has(f"verdict.{rule.code}")
    ]
    assert lacking == []
    assert all(texts.template("verdict.printed", lang) for lang in LANGUAGES)


def test_there_are_rules_for_all_stages() -> None:
    assert {rule.stage for rule in load_catalogue().rules} == set(Stage)


@pytest.mark.parametrize(
    ("when", "stage", "group", "more"),
    [
        (LINE, "image", "environment", ""),
        (LINE, "infrastructure", "infrastructure", ""),
        (LINE, "application", "infrastructure", ""),
        (LINE, "environment", "environment", ", confidence: certain"),
        (f"{LINE}, engine: [x]", "environment", "environment", ""),
        ('line: "(a+)+b"', "application", "business", ""),
        ('line: "(x"', "application", "business", ""),
        ("engine: x", "application", "business", ""),
        ("engine: [x]", "nowhere", "business", ""),
        ("weather: [x]", "application", "business", ""),
    ],
    ids=["image", "infrastructure", "group", "certain", "mixed", "explodes", "pattern", "list", "stage",
         "kind"],
)
def test_a_rule_that_may_not_stand_is_refused(when: str, stage: str, group: str, more: str) -> None:
    with pytest.raises(InvalidError) as refused:
        parse_catalogue(OWNERS + RULE % (when, stage, group, more))
    assert refused.value.code == "catalogue-invalid"


def test_a_changed_rule_gives_the_catalogue_another_name() -> None:
    texts_of = [OWNERS + RULE % (f"engine: [{code}]", "image", Group.ENVIRONMENT, "") for code in ("a", "b")]
    assert len({parse_catalogue(body).name for body in texts_of}) == 2

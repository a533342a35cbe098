"""The strongest signal decides, and the others are named."""

from __future__ import annotations

from typing import Any

import pytest

from steelyard.engines.port import MemberObservation, MemberPhase
from steelyard.model.failures import Verdict
from steelyard.model.lifecycle import Outcome
from steelyard.model.reasons import Reason
from steelyard.services.failure_catalogue import load_catalogue
from steelyard.services.failure_log import scan
from steelyard.services.verdicts import Ending, judge, judge_refusal, leaf_view

MISSING = b"ModuleNotFoundError: No module named 'x'\n"


def member(name: str = "mb", **fields: Any) -> MemberObservation:
    return MemberObservation("at", name, MemberPhase.ENDED, **{"ended_at": 5, **fields})


def told(*members: MemberObservation, outcome: Outcome = Outcome.FAILED, **fields: Any) -> Verdict:
    verdict = judge(Ending(outcome, members, **fields))
    assert verdict is not None
    return verdict


def says(data: bytes, name: str = "mb") -> dict[str, Any]:
    return {name: scan(load_catalogue(), name, data, 0)}


def test_a_success_has_no_verdict() -> None:
    assert judge(Ending(Outcome.SUCCEEDED, [member(exit_code=0)])) is None


@pytest.mark.requirement("F12")
def test_a_line_never_overrules_what_the_engine_counted() -> None:
    verdict = told(member(exit_signal=9, failure="oom-killed"), lines=says(MISSING))
    assert (verdict.code, verdict.confidence) == ("oom-killed", "certain")
    assert "line.python-module" in [other.rule for other in verdict.others]


def test_a_line_never_overrules_a_signal_but_says_why_a_program_aborted() -> None:
    assert told(member(exit_signal=11), lines=says(MISSING)).code == "segmentation-fault"
    assert told(member(exit_signal=6), lines=says(MISSING)).code == "module-missing"


def test_a_line_says_more_than_an_exit_code() -> None:
    verdict = told(member(exit_code=1), lines=says(MISSING))
    assert (verdict.stage, verdict.code, verdict.confidence) == ("environment", "module-missing", "medium")
    line, counter = verdict.evidence
    assert (line.kind, line.member, line.offset, line.length) == ("line", "mb", 0, len(MISSING) - 1)
    assert (counter.field, counter.value) == ("exit_code", 1)


def test_an_exit_code_alone_is_the_program_s_own() -> None:
    verdict = told(member(exit_code=7))
    assert (verdict.stage, verdict.code, verdict.params) == ("application", "exit-code", {"exit": 7})


def test_an_exit_code_says_so_where_the_log_could_not_be_read() -> None:
    def fields(verdict: Verdict) -> list[str]:
        return [pointer.field for pointer in verdict.evidence]

    assert fields(told(member(exit_code=7), lines={"mb": ()})) == ["exit_code"]
    assert fields(told(member(exit_code=7))) == ["exit_code", "log"]


@pytest.mark.requirement("F11")
def test_an_end_that_nobody_saw_is_unknown_and_not_the_program_s_fault() -> None:
    verdict = told(member(), outcome=Outcome.FAILED)
    assert (verdict.stage, verdict.group, verdict.confidence) == ("unknown", "unknown", "low")


def test_a_code_of_another_version_s_engine_is_shown_with_its_stage_and_nobody_s_fault() -> None:
    verdict = told(member(failure="flux", failure_stage="image"))
    assert (verdict.stage, verdict.code) == ("image", "flux")
    assert (verdict.group, verdict.confidence) == ("unknown", "low")
    assert told(member(failure="flux", failure_stage="dreams")).stage == "unknown"


def test_the_first_that_failed_without_being_told_to_stop_speaks_for_the_gang() -> None:
    verdict = told(
        member("a", exit_signal=15, stop_requested=True, ended_at=1),
        member("b", exit_code=3, ended_at=4),
        member("c", exit_code=9, ended_at=2),
    )
    assert (verdict.params, verdict.evidence[0].member) == ({"exit": 9}, "c")


def test_a_loss_that_the_engine_saw_explains_the_other_members_of_a_gang() -> None:
    verdict = told(
        member("a", exit_code=1, ended_at=2), member("b", failure="node-lost", ended_at=4),
        outcome=Outcome.LOST,
    )  # fmt: skip
    assert (verdict.stage, verdict.code, verdict.evidence[0].member) == ("infrastructure", "node-lost", "b")


@pytest.mark.requirement("F10")
@pytest.mark.parametrize(
    ("outcome", "stage", "code"),
    [
        (Outcome.CANCELLED, "cancelled", "cancelled"),
        (Outcome.WITHDRAWN, "cancelled", "cancelled"),
        (Outcome.PREEMPTED, "policy", "preempted"),
        (Outcome.TIMED_OUT, "policy", "time-limit"),
        (Outcome.LOST, "infrastructure", "lost"),
    ],
)
def test_ends_that_the_control_plane_made_are_told_from_failures(
    outcome: Outcome, stage: str, code: str
) -> None:
    verdict = told(member(exit_signal=15, stop_requested=True), outcome=outcome)
    if outcome is not Outcome.LOST:
        assert (verdict.stage, verdict.code, verdict.others) == (stage, code, ())
    assert verdict.is_failure is (outcome in (Outcome.TIMED_OUT, Outcome.LOST))


def test_a_start_that_is_too_late_is_said_of_the_stage_where_it_hung() -> None:
    verdict = told(member(exit_signal=15, stop_requested=True), why="start-timeout", stage="image")
    assert (verdict.stage, verdict.code, verdict.group) == ("image", "start-timeout", "infrastructure")


@pytest.mark.requirement("F14")
def test_a_refusal_has_a_verdict_of_its_binding_reason() -> None:
    verdict = judge_refusal([Reason("over-limit", "quota", owner="project/a", resource="gpu")])
    assert verdict is not None
    assert (verdict.stage, verdict.group, verdict.responsible) == ("queue", "scheduling", "quota-owner")
    assert judge_refusal([]) is None


def test_a_leaf_has_the_pointers_and_none_of_the_program_s_words() -> None:
    verdict = told(member(exit_code=1), lines=says(MISSING + b"secret-token\n"))
    view = leaf_view(verdict)
    assert view["evidence"][0]["digest"] == verdict.evidence[0].digest
    assert "ModuleNotFound" not in str(view)
    said = told(member(failure="module-missing", failure_text="torch at /home/ann"))
    assert "ann" not in str(leaf_view(said))

"""What follows an attempt: by the cause, and never more attempts than allowed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.control.retry import MAX_AVOIDED, avoided, follow_up
from steelyard.engines.port import MemberObservation, MemberPhase
from steelyard.model.failures import Verdict
from steelyard.model.lifecycle import Outcome
from steelyard.model.workloads import RestartPolicy
from steelyard.services.failure_catalogue import load_catalogue
from steelyard.services.live_records import LiveMember
from steelyard.services.verdicts import Ending, judge

NEVER, OURS, ANY = RestartPolicy.NEVER, RestartPolicy.ON_INFRASTRUCTURE, RestartPolicy.ON_FAILURE
CODES = sorted(
    code for rule in load_catalogue().rules for code in rule.when.get("engine", ()) if isinstance(code, str)
)


def verdict_of(outcome: Outcome, failure: str | None = None, code: int | None = None) -> Verdict | None:
    seen = MemberObservation("at", "mb", MemberPhase.ENDED, ended_at=1, failure=failure, exit_code=code)
    return judge(Ending(outcome, [seen]))


@pytest.mark.parametrize(
    ("outcome", "failure", "code", "policies"),
    [
        (Outcome.FAILED, "start-failed", None, {OURS, ANY}),
        (Outcome.LOST, "node-lost", None, {OURS, ANY}),
        (Outcome.FAILED, "image-not-found", None, set()),
        (Outcome.FAILED, "module-missing", None, set()),
        (Outcome.FAILED, "oom-killed", None, {ANY}),
        (Outcome.FAILED, None, 7, {ANY}),
        (Outcome.FAILED, "work-folder-quota", None, set()),
        (Outcome.TIMED_OUT, None, None, set()),
        (Outcome.CANCELLED, None, None, set()),
        (Outcome.SUCCEEDED, None, 0, set()),
    ],
)
@pytest.mark.requirement("F5", "D15")
def test_the_cause_decides_what_is_tried_again(
    outcome: Outcome, failure: str | None, code: int | None, policies: set[RestartPolicy]
) -> None:
    verdict = verdict_of(outcome, failure, code)
    again = {p for p in RestartPolicy if follow_up(outcome, verdict, p, 1, 3, cancelled=False) == "retry"}
    assert again == policies


def test_a_preempted_one_comes_back_unless_it_was_cancelled_meanwhile() -> None:
    verdict = verdict_of(Outcome.PREEMPTED)
    assert follow_up(Outcome.PREEMPTED, verdict, NEVER, 9, 1, cancelled=False) == "preempted"
    assert follow_up(Outcome.PREEMPTED, verdict, ANY, 1, 3, cancelled=True) is None


@given(st.lists(st.sampled_from(CODES), min_size=1, max_size=30), st.sampled_from(list(RestartPolicy)),
       st.integers(1, 10))  # fmt: skip
def test_attempts_never_exceed_what_is_allowed(
    failures: list[str], policy: RestartPolicy, most: int
) -> None:
    number = 1
    for failure in failures:
        verdict = verdict_of(Outcome.FAILED, failure)
        if follow_up(Outcome.FAILED, verdict, policy, number, most, cancelled=False) is None:
            break
        number += 1
    assert number <= most


@given(st.lists(st.integers(1, 20), max_size=40))
def test_nodes_of_failed_attempts_are_kept_in_mind_but_not_without_end(nodes: list[int]) -> None:
    verdict = verdict_of(Outcome.LOST, "node-lost")
    kept: tuple[int, ...] = ()
    for node in nodes:
        kept = avoided(kept, verdict, LiveMember(1, "mb", "main", 0, "c", node, "n", "ended", []))
        assert kept[-1] == node
        assert len(set(kept)) == len(kept) <= MAX_AVOIDED
    mine = replace(verdict, group="business") if verdict is not None else None
    assert avoided(kept, mine, None) == kept

"""Why an attempt did not succeed: rules, each with the signal it rests on.

Failures are told apart by stage; unknown is a stage of its own and is never folded into
`application`. The sentence belongs to `locale` (code `verdict-CODE`).
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.engines.port import MemberObservation
from steelyard.model.lifecycle import Outcome
from steelyard.model.workloads import Verdict


@dataclass(frozen=True, slots=True)
class FailureRule:
    """What a failure code of an engine means."""

    stage: str
    group: str  # scheduling | environment | business | infrastructure
    responsible: str
    action: str


START_TIMEOUT = "start-timeout"
#: Codes that engines report themselves.
ENGINE_RULES: dict[str, FailureRule] = {
    "image-not-found": FailureRule("image", "environment", "submitter", "fix-image"),
    "image-pull-failed": FailureRule("image", "environment", "platform", "check-registry"),
    "image-runtime-missing": FailureRule("image", "environment", "platform", "use-host-runtime"),
    "module-missing": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "program-missing": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "working-directory-missing": FailureRule("environment", "environment", "submitter", "fix-template"),
    "environment-mismatch": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "module-version": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "library-missing": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "interpreter-missing": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "interpreter-failed": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "program-architecture": FailureRule("environment", "environment", "submitter", "supplement-environment"),
    "environment-timeout": FailureRule("environment", "environment", "platform", "look-at-cluster"),
    "device-file-missing": FailureRule("environment", "infrastructure", "platform", "look-at-cluster"),
    "device-not-accessible": FailureRule("environment", "infrastructure", "platform", "look-at-cluster"),
    "command-not-found": FailureRule("launch", "environment", "submitter", "fix-template"),
    "not-executable": FailureRule("launch", "environment", "submitter", "fix-template"),
    "start-failed": FailureRule("launch", "infrastructure", "platform", "retry"),
    "start-refused": FailureRule("launch", "infrastructure", "platform", "look-at-cluster"),
    START_TIMEOUT: FailureRule("launch", "infrastructure", "platform", "look-at-cluster"),
    "oom-killed": FailureRule("application", "business", "submitter", "ask-more-memory"),
    "supervisor-lost": FailureRule("infrastructure", "infrastructure", "platform", "retry"),
    "node-lost": FailureRule("infrastructure", "infrastructure", "platform", "retry"),
    "device-lost": FailureRule("infrastructure", "infrastructure", "platform", "retry"),
}

_SIGNALS = {6: "ABRT", 9: "KILL", 11: "SEGV", 15: "TERM"}


def judge(
    outcome: Outcome, members: list[MemberObservation], why: str | None = None, stage: str | None = None
) -> Verdict | None:
    """The verdict of an ended attempt, None when it succeeded.

    `members` are the last observations; the first that failed speaks for the gang. `why` the control plane
    ended it, if it did, and the `stage` of its start in which it was then.
    """
    if outcome in (Outcome.SUCCEEDED, Outcome.WITHDRAWN, Outcome.CANCELLED, Outcome.PREEMPTED):
        return None
    if outcome is Outcome.TIMED_OUT:
        return Verdict(
            "policy", "time-limit", "business", "submitter", "raise-time-limit", ("time-limit",), "high"
        )
    if why == START_TIMEOUT:
        late = ENGINE_RULES[START_TIMEOUT]
        at = (f"stage={stage or 'unknown'}",)
        return Verdict(
            stage or late.stage, START_TIMEOUT, late.group, late.responsible, late.action, at, "high"
        )
    failed = _first_failed(members)
    if failed is None:
        return _unknown(("no-member-observed",))
    rule = ENGINE_RULES.get(failed.failure or "")
    if rule is not None and failed.failure is not None:
        said = (f"{failed.member_id}:failure={failed.failure}", *_text(failed))
        return Verdict(rule.stage, failed.failure, rule.group, rule.responsible, rule.action, said, "high")
    if failed.failure is not None:
        stage = failed.failure_stage or "unknown"
        said = (f"{failed.member_id}:failure={failed.failure}", *_text(failed))
        return Verdict(stage, failed.failure, "unknown", "platform", "look-at-log", said, "low")
    if outcome is Outcome.LOST:
        seen = (f"{failed.member_id}:phase={failed.phase}",)
        return Verdict("infrastructure", "lost", "infrastructure", "platform", "retry", seen, "medium")
    return _by_exit(failed)


def _by_exit(failed: MemberObservation) -> Verdict:
    if failed.exit_signal is not None:
        name = _SIGNALS.get(failed.exit_signal, str(failed.exit_signal))
        evidence = (f"{failed.member_id}:signal={name}",)
        return Verdict(
            "application", "exit-signal", "business", "submitter", "look-at-log", evidence, "medium"
        )
    if failed.exit_code:
        exited = (f"{failed.member_id}:exit={failed.exit_code}", f"{failed.member_id}:log")
        return Verdict("application", "exit-code", "business", "submitter", "look-at-log", exited, "high")
    return _unknown((f"{failed.member_id}:exit=unknown",))


def _first_failed(members: list[MemberObservation]) -> MemberObservation | None:
    bad = [m for m in members if m.failure is not None or m.exit_signal is not None or m.exit_code != 0]
    return min(bad, key=lambda m: (m.ended_at is None, m.ended_at or 0, m.member_id), default=None)


def _text(member: MemberObservation) -> tuple[str, ...]:
    return (f"{member.member_id}:said={member.failure_text[:200]}",) if member.failure_text else ()


def _unknown(evidence: tuple[str, ...]) -> Verdict:
    return Verdict("unknown", "unknown", "unknown", "platform", "look-at-log", evidence, "low")

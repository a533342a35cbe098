"""Verdicts: the strongest rule of the catalogue that holds for an attempt's end, or a refused request.

The order of strength: what the control plane did itself; what the engine saw; the signal that ended the
program; a line that the program printed; the bare exit code. A line never overrules a counter: it only tells
more where the program ended by itself. What held, too, is named in the verdict.

The member that failed first without having been told to stop speaks for the gang.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from steelyard.engines.port import MemberObservation
from steelyard.model.failures import Confidence, Group, Other, Pointer, Stage, Verdict
from steelyard.model.lifecycle import Outcome
from steelyard.model.reasons import Reason
from steelyard.services.failure_catalogue import Catalogue, Rule, load_catalogue
from steelyard.services.failure_log import Line, printable
from steelyard.services.failure_signature import signature

MAX_OTHERS = 5
START_TIMEOUT = "start-timeout"
DRAINED = "drained"
DEVICE_UNHEALTHY = "device-unhealthy"
_ABORT = 6
_SIGNAL_NAMES = {
    1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE", 9: "KILL", 10: "USR1",
    11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 24: "XCPU", 25: "XFSZ", 31: "SYS",
}  # fmt: skip
#: How an attempt ended where the control plane ended it, in the catalogue's words.
_CONTROL = {
    Outcome.CANCELLED: "cancelled",
    Outcome.WITHDRAWN: "withdrawn",
    Outcome.PREEMPTED: "preempted",
    Outcome.TIMED_OUT: "time-limit",
    Outcome.RECLAIMED: "idle-limit",
}


@dataclass(frozen=True, slots=True)
class Ill:
    """A device that a member held when it ended, and what was said of it."""

    uid: str
    health: str
    sign: str | None
    said: str


@dataclass(frozen=True, slots=True)
class Ending:
    """All that is known of an attempt's end. `lines`: what matched in the logs, by member id; `ill`: members
    on devices that were unhealthy or missing.

    `why`: the control plane's reason to stop it; `stage`: where in its start it was then.
    """

    outcome: Outcome
    members: Sequence[MemberObservation] = ()
    why: str | None = None
    stage: str | None = None
    lines: Mapping[str, Sequence[Line]] | None = None
    ill: Mapping[str, Ill] | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A rule that holds. Lower ranks are stronger."""

    rank: int
    rule: Rule
    kind: str
    evidence: tuple[Pointer, ...]
    detail: str | None = None
    number: int | None = None  # exit code or signal
    params: tuple[tuple[str, str | int], ...] = ()
    at: int = 0  # of lines: the later one is the stronger


def judge(ending: Ending, catalogue: Catalogue | None = None) -> Verdict | None:
    """The verdict of an ended attempt, None when it succeeded."""
    rules = catalogue or load_catalogue()
    if ending.outcome is Outcome.SUCCEEDED:
        return None
    found = sorted(_candidates(ending, rules), key=lambda one: (one.rank, -one.at))
    if not found:
        nothing = rules.first("control", "nothing-seen")
        assert nothing is not None
        seen = tuple(_counter(m, "phase", m.phase.value) for m in ending.members[:1])
        found = [_Candidate(9, nothing, "control", seen or (Pointer("counter", "members", 0),))]
    return _verdict(found, ending, rules)


def withdrawn_json() -> str:
    """The verdict on a workload that left while it waited, as its row has it."""
    return msgspec.json.encode(judge(Ending(Outcome.WITHDRAWN))).decode()


def judge_refusal(reasons: Sequence[Reason]) -> Verdict | None:
    """The verdict of a request that was turned away; None where no reason is left to tell."""
    rules = load_catalogue()
    for reason in reasons[:1]:
        rule = rules.first("refusal", reason.code)
        if rule is not None:
            where = "/".join(part for part in (reason.owner, reason.flavor or reason.resource) if part)
            pointer = Pointer("counter", "reason", reason.code)
            said = reason.params.get("error")
            detail = where or (str(said) if said else None)
            found = [_Candidate(0, rule, "refusal", (pointer,), detail)]
            return _verdict(found, Ending(Outcome.FAILED), rules)
    return None


def failure_columns(verdict: Verdict | None) -> dict[str, str | None]:
    """What an attempt's row says of a verdict that is a failure: failures are grouped by it."""
    failure = verdict if verdict is not None and verdict.is_failure else None
    return {
        "failure_signature": None if failure is None else failure.signature,
        "failure_stage": None if failure is None else str(failure.stage),
        "failure_group": None if failure is None else str(failure.group),
    }


def leaf_view(verdict: Verdict) -> dict[str, Any]:
    """The verdict as it stands in a leaf: pointers and digests, and none of the program's own words."""
    view = {
        name: str(getattr(verdict, name))
        for name in (
            "stage", "code", "group", "responsible", "action", "retry", "confidence", "rule", "catalogue",
            "signature",
        )
    }  # fmt: skip
    return {**view, "evidence": [_leaf_pointer(pointer) for pointer in verdict.evidence]}


def _leaf_pointer(pointer: Pointer) -> dict[str, str | int | None]:
    shown: dict[str, str | int | None] = {
        "kind": pointer.kind, "field": pointer.field, "member": pointer.member,
    }  # fmt: skip
    if pointer.kind == "line":
        return {**shown, "offset": pointer.offset, "length": pointer.length, "digest": pointer.digest}
    return shown if pointer.field == "failure_text" else {**shown, "value": pointer.value}


def first_failed(members: Sequence[MemberObservation]) -> MemberObservation | None:
    """The member that speaks for the gang; one that was told to stop only where no other failed."""
    bad = [m for m in members if m.failure is not None or m.exit_signal is not None or m.exit_code != 0]
    return min(
        bad, key=lambda m: (m.stop_requested, m.ended_at is None, m.ended_at or 0, m.member_id), default=None
    )


def _candidates(ending: Ending, rules: Catalogue) -> list[_Candidate]:
    found = _control(ending, rules)
    cause = first_failed(ending.members)
    own = [m for m in ending.members if m.failure is not None and (m is cause or not m.stop_requested)]
    found += [_engine(member, rules) for member in own]
    ours = bool(found) and cause is not None and (cause.stop_requested or cause.timed_out)
    if cause is not None and not ours and cause.member_id in (ending.ill or {}):
        found.append(_ill(cause, (ending.ill or {})[cause.member_id], rules))
    if cause is not None and not ours:  # how it ended once it was told to says nothing about it
        lines = (ending.lines or {}).get(cause.member_id)
        found += _counters(cause, rules, log_read=lines is not None)
        found += _printed(cause, lines or (), rules)
    if ending.outcome is Outcome.LOST:
        rule = rules.first("control", "lost")
        assert rule is not None
        seen = tuple(_counter(m, "phase", m.phase.value) for m in ending.members[:1])
        found.append(_Candidate(2, rule, "control", seen or (Pointer("counter", "members", 0),)))
    return found


def _control(ending: Ending, rules: Catalogue) -> list[_Candidate]:
    """What the control plane did itself."""
    word = _CONTROL.get(ending.outcome) or (START_TIMEOUT if ending.why == START_TIMEOUT else None)
    if ending.outcome is Outcome.PREEMPTED and ending.why == DRAINED:
        word = DRAINED
    if ending.outcome is Outcome.FAILED and ending.why == DEVICE_UNHEALTHY:
        return [_stopped_for_device(ending, rules)]
    rule = None if word is None else rules.first("control", word)
    if rule is None:
        return []
    told = [_counter(m, "timed_out", "true") for m in ending.members if m.timed_out][:1]
    evidence = (Pointer("counter", "outcome", ending.outcome.value), *told)
    if word == START_TIMEOUT:
        evidence = (
            Pointer("counter", "stop_reason", ending.why), Pointer("counter", "sub_stage", ending.stage),
        )  # fmt: skip
    return [_Candidate(0, rule, "control", evidence)]


def _engine(member: MemberObservation, rules: Catalogue) -> _Candidate:
    assert member.failure is not None
    rule = rules.first("engine", member.failure)
    assert rule is not None  # the last rule takes any
    evidence = [_counter(member, "failure", member.failure)]
    if member.failure_text:
        evidence.append(_counter(member, "failure_text", printable(member.failure_text)))
    evidence += [
        _counter(member, name, value)
        for name, value in (("exit_code", member.exit_code), ("exit_signal", member.exit_signal))
        if value is not None
    ]
    detail = printable(member.failure_text) or None
    return _Candidate(1, rule, "engine", tuple(evidence), detail)


def _stopped_for_device(ending: Ending, rules: Catalogue) -> _Candidate:
    """It was asked to end since its device turned bad."""
    rule = rules.first("engine", DEVICE_UNHEALTHY)
    assert rule is not None
    evidence = [Pointer("counter", "stop_reason", DEVICE_UNHEALTHY)]
    said = None
    for member in ending.members:
        ill = (ending.ill or {}).get(member.member_id)
        if ill is not None:
            evidence.append(_counter(member, "device", ill.uid))
            said = said or ill.said or ill.uid
    return _Candidate(0, rule, "control", tuple(evidence), None if said is None else printable(said))


def _ill(member: MemberObservation, ill: Ill, rules: Catalogue) -> _Candidate:
    """Its device was bad when it failed: a sign of the place, not of the program."""
    rule = rules.first("engine", DEVICE_UNHEALTHY)
    assert rule is not None
    evidence = [_counter(member, "device", ill.uid), _counter(member, "device_health", ill.health)]
    if ill.sign is not None:
        evidence.append(_counter(member, "device_sign", ill.sign))
    return _Candidate(1, rule, "engine", tuple(evidence), printable(ill.said or ill.uid))


def _counters(member: MemberObservation, rules: Catalogue, *, log_read: bool) -> list[_Candidate]:
    """The exit code or the signal. Where the log could not be read, a bare exit code says so."""
    found: list[_Candidate] = []

    def add(rank: int, kind: str, value: int, name: str) -> None:
        rule = rules.first(kind, value)
        if rule is not None:
            number = value - 128 if kind == "shell" else value
            rank = 5 if rule.generic and kind != "exit" else rank
            shown = ("exit", value) if kind == "exit" else ("signal", _SIGNAL_NAMES.get(number, str(number)))
            evidence: tuple[Pointer, ...] = (_counter(member, name, value),)
            if kind == "exit" and not log_read:
                evidence += (_counter(member, "log", "not-read"),)
            found.append(_Candidate(rank, rule, kind, evidence, None, number, (shown,)))

    if member.exit_signal is not None:
        add(2, "signal", member.exit_signal, "exit_signal")
    elif member.exit_code:
        add(3, "shell", member.exit_code, "exit_code")
        add(6, "exit", member.exit_code, "exit_code")
    return found


def _printed(member: MemberObservation, lines: Sequence[Line], rules: Catalogue) -> list[_Candidate]:
    """What its log says. It counts only where the program ended by itself."""
    aborted = member.exit_signal == _ABORT
    if member.exit_signal is None and not member.exit_code:
        return []
    named = {rule.id: (number, rule) for number, rule in enumerate(rules.lines())}
    ended = _counter(member, "exit_code", member.exit_code)
    if member.exit_signal is not None:
        ended = _counter(member, "exit_signal", member.exit_signal)
    found = []
    for line in sorted(lines, key=lambda one: named[one.rule][0]):
        rule = named[line.rule][1]
        if rule.exit_only and member.exit_code not in rule.exit_only:
            continue
        pointer = Pointer("line", "log", line.text, line.member, line.offset, line.length, line.digest)
        rank = (5 if rule.generic else 4) if member.exit_signal is None or aborted else 7
        found.append(_Candidate(rank, rule, "line", (pointer, ended), line.detail, at=line.offset))
    return found


def _verdict(found: Sequence[_Candidate], ending: Ending, rules: Catalogue) -> Verdict:
    best = found[0]
    rule, stage, code = best.rule, str(best.rule.stage), best.rule.code
    confidence, group = best.rule.certainty(best.kind), best.rule.group
    if best.rule.matches("control", START_TIMEOUT) and ending.stage:
        stage = ending.stage
    elif best.kind == "engine" and code == "other":
        stage, code = _unlisted(best, ending)
        confidence = Confidence.LOW
    elif group is Group.UNKNOWN:
        confidence = Confidence.LOW
    others = _others(found)
    return Verdict(
        stage=stage,
        code=code,
        group=group,
        responsible=rule.responsible,
        action=rule.action,
        evidence=best.evidence,
        confidence=confidence,
        retry=rule.retry,
        rule=rule.id,
        catalogue=rules.name,
        signature=signature(stage, code, best.detail, best.number),
        detail=best.detail,
        params=dict(best.params),
        others=others,
    )


def _unlisted(best: _Candidate, ending: Ending) -> tuple[str, str]:
    """(stage, code) of what an engine of another version said: its own words, where they fit the lists."""
    pointer = best.evidence[0]
    said = next((m for m in ending.members if m.member_id == pointer.member), None)
    stage = said.failure_stage if said is not None else None
    return (stage if stage in set(Stage) and stage else Stage.UNKNOWN), printable(str(pointer.value))[:63]


def _others(found: Sequence[_Candidate]) -> tuple[Other, ...]:
    """What held, too, each rule once."""
    told: dict[str, Other] = {}
    for one in found[1:]:
        if one.rule.id != found[0].rule.id:
            told.setdefault(
                one.rule.id, Other(one.rule.id, one.rule.stage, one.rule.code, one.rule.certainty(one.kind))
            )
    return tuple(told.values())[:MAX_OTHERS]


def _counter(member: MemberObservation, name: str, value: str | int | None) -> Pointer:
    return Pointer("counter", name, value, member.member_id)

"""From a live attempt to the verdict on its end: what was seen of its members, and what their logs say."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.engines.port import MemberObservation, MemberPhase
from steelyard.model.failures import Verdict
from steelyard.model.health import Health
from steelyard.model.ids import render
from steelyard.model.lifecycle import Outcome
from steelyard.services.live_records import LiveAttempt, LiveDevice, LiveMember
from steelyard.services.verdicts import Ending, Ill, first_failed, judge


def verdict_on(
    attempt: LiveAttempt, outcome: Outcome, devices: Mapping[int, LiveDevice] | None = None
) -> Verdict | None:
    """The verdict of an attempt that has ended, None when it succeeded. `devices`: as they are said to be."""
    lines = {member.text_id: member.lines for member in attempt.members if member.lines is not None}
    seen = observations(attempt)
    return judge(Ending(outcome, seen, attempt.stop_reason, attempt.sub_stage, lines, _ill(attempt, devices)))


def _ill(attempt: LiveAttempt, devices: Mapping[int, LiveDevice] | None) -> dict[str, Ill]:
    """Members that hold a device which is unhealthy or missing."""
    found: dict[str, Ill] = {}
    for member in attempt.members:
        for allocation in member.allocations:
            device = (devices or {}).get(allocation.device_id)
            if device is not None and device.condition.health in (Health.UNHEALTHY, Health.MISSING):
                sign = next(iter(device.condition.signs), None)
                code, said = (None, "") if sign is None else (sign.code.value, sign.detail)
                found.setdefault(
                    member.text_id, Ill(device.uid, device.condition.health.value, code, said)
                )
    return found


def unread_end(attempt: LiveAttempt) -> LiveMember | None:
    """The member whose log may tell more about a failure and was not read yet."""
    if attempt.outcome is not Outcome.FAILED:
        return None
    cause = speaker(attempt)
    if cause is None or cause.lines is not None:
        return None
    seen = cause.seen
    exit_code, exit_signal = (
        (cause.exit_code, cause.exit_signal) if seen is None else (seen.exit_code, seen.exit_signal)
    )
    return cause if exit_code or exit_signal is not None else None


def speaker(attempt: LiveAttempt) -> LiveMember | None:
    """The member that speaks for the gang."""
    cause = first_failed(observations(attempt))
    members = {member.text_id: member for member in attempt.members}
    return None if cause is None else members.get(cause.member_id)


def observations(attempt: LiveAttempt) -> list[MemberObservation]:
    """What was seen of the members; after a restart, from their rows."""
    text = render("attempt", attempt.attempt_id)
    return [
        m.seen
        or MemberObservation(
            text,
            m.text_id,
            MemberPhase.ENDED,
            started_at=m.started_at,
            ended_at=m.ended_at,
            exit_code=m.exit_code,
            exit_signal=m.exit_signal,
            failure=m.failure,
        )
        for m in attempt.staying
    ]

"""The log of a simulated member: one line for each stage it came through, each marked `[simulated]`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from steelyard.engines.port import LogChunk, MemberPhase
from steelyard.engines.simulated.member import READY, RUN, Member

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TEXTS = {
    "provision": "provision",
    "image": "image",
    "environment": "environment",
    "launch": "launch",
    RUN: "running",
    READY: "ready",
    "checkpoint": "checkpoint written",
    "term": "asked to end",
    "time-limit": "time limit reached",
}


def render(member: Member) -> bytes:
    """All lines so far; what is there only ever grows at its end."""
    seen_until = member.hidden_at
    lines = []
    for at, what in member.marks:
        if seen_until is not None and at > seen_until:
            break
        text = _TEXTS[what]
        if what == "provision":
            claims = ", ".join(f"{uid} {quantity}" for uid, quantity in member.record.claims)
            text = f"provision on {member.record.node}: {claims or 'nothing'}"
        lines.append(_line(at, text))
    if member.phase is MemberPhase.ENDED and member.ended_at is not None and seen_until is None:
        lines.append(_line(member.ended_at, _ending(member)))
    return "".join(lines).encode()


def chunk(data: bytes, offset: int, limit: int, ended: bool) -> LogChunk:
    """The part of a log that was asked for; a negative offset counts from the end."""
    begin = max(0, len(data) + offset) if offset < 0 else min(offset, len(data))
    part = data[begin : begin + max(0, limit)]
    following = begin + len(part)
    return LogChunk(part, following, ended and following >= len(data))


def _ending(member: Member) -> str:
    ending = member.ending
    if ending.failure is not None:
        return f"failed at {ending.stage}: {ending.failure}: {ending.text}"
    if ending.exit_signal is not None:
        return f"ended by signal {ending.exit_signal}"
    return "ended" if ending.exit_code is None else f"exited with {ending.exit_code}"


def _line(at: int, text: str) -> str:
    moment = _EPOCH + timedelta(microseconds=at)
    return f"[simulated] {moment:%Y-%m-%dT%H:%M:%S.%fZ} {text}\n"

"""An attempt's time drawn as bars: one line for each stage, waits by their reason, on one scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steelyard.cli.session import Session
from steelyard.model.units import format_duration

WIDTH = 48
_FULL, _WAIT = "█", "░"


@dataclass(slots=True)
class Stage:
    """A line of the drawing: pieces `[t0, t1)` in µs."""

    label: str
    waiting: bool
    pieces: list[tuple[int, int]] = field(default_factory=list)

    @property
    def total(self) -> int:
        """Time in all, µs."""
        return sum(t1 - t0 for t0, t1 in self.pieces)


def draw(session: Session, attempt: Mapping[str, Any], now: int, waits_for: str | None = None) -> None:
    """Prints the bars of one attempt; nothing when nothing is known of it."""
    found = stages(session, attempt, now, waits_for)
    if not found:
        return
    start = min(t0 for stage in found for t0, _ in stage.pieces)
    end = max(t1 for stage in found for _, t1 in stage.pieces)
    width = max(columns(stage.label) for stage in found)
    for stage in found:
        label = stage.label + " " * (width - columns(stage.label))
        session.line(f"  {label}  {bar(stage, start, end)}  {format_duration(stage.total)}")


def stages(
    session: Session, attempt: Mapping[str, Any], now: int, waits_for: str | None = None
) -> list[Stage]:
    """The stages in the order in which they began. An open one ends `now`.

    `waits_for`: what an attempt that still waits is waiting for, where no slice says so yet.
    """
    times: Mapping[str, int | None] = attempt["times"]
    submitted, placed = times.get("submitted"), times.get("placed")
    if submitted is None:
        return []
    last = placed or times.get("ended") or times.get("release_confirmed")
    until = last if last is not None else max(now, submitted)
    lines: dict[str, Stage] = {}
    covered = submitted
    for wait in sorted(attempt.get("waits") or (), key=lambda wait: wait["t0"]):
        t1 = wait["t1"] if wait["t1"] is not None else until
        _add(lines, _wait_label(session, wait["reason"]), True, wait["t0"], t1)
        covered = max(covered, t1)
    if not lines or covered < until:
        label = session.word("state", "waiting")
        if waits_for is not None and last is None:
            label = _wait_label(session, waits_for)
        _add(lines, label, True, covered, until)
    for tile in attempt.get("tiles") or ():
        _add(lines, session.word("state", tile["state"]), False, tile["t0"], tile["t1"])
    return [stage for stage in lines.values() if stage.total > 0]


def bar(stage: Stage, start: int, end: int) -> str:
    """The line's pieces on the scale `[start, end)`; a piece is at least one character."""
    span = max(end - start, 1)
    drawn = [" "] * WIDTH
    for t0, t1 in stage.pieces:
        first = min((t0 - start) * WIDTH // span, WIDTH - 1)
        after = max(-(-(t1 - start) * WIDTH // span), first + 1)
        for index in range(first, min(after, WIDTH)):
            drawn[index] = _WAIT if stage.waiting else _FULL
    return "".join(drawn)


def columns(text: str) -> int:
    """Columns that a text takes on a terminal."""
    return sum(2 if ord(character) > 0x2E7F else 1 for character in text)


def _wait_label(session: Session, reason: str) -> str:
    return f"{session.word('state', 'waiting')} · {session.word('wait', reason)}"


def _add(lines: dict[str, Stage], label: str, waiting: bool, t0: int, t1: int) -> None:
    if t1 > t0:
        lines.setdefault(label, Stage(label, waiting)).pieces.append((t0, t1))

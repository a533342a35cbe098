"""Which window a reader means: today, seven days, this month, or from–to, all in the reader's zone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from steelyard.console.speech import zone
from steelyard.console.visit import Visit
from steelyard.model.errors import InvalidError

SPANS = ("today", "week", "month", "all")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX = 32
_MICRO = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """`start` None: from the beginning; `end` None: now. `given` are the fields as they were typed."""

    span: str
    start: int | None
    end: int | None
    given: tuple[str, str]


def window_of(visit: Visit, field: Callable[[str, str], str] | None = None) -> Window:
    """A query's window, or a form's. Raises InvalidError `instant-invalid`, `window-invalid`."""
    take = field or (lambda name, _: visit.asked(name, _MAX))
    span = take("span", "")
    given = (take("from", "")[:_MAX], take("to", "")[:_MAX])
    if span == "custom" or (not span and any(given)):
        start, end = (instant(text, visit.speech.zone) for text in given)
        if start is not None and end is not None and start >= end:
            raise InvalidError("window-invalid", start=start, end=end)
        return Window("custom", start, end, given)
    if span not in SPANS:
        span = "week"
    return Window(span, _start(span, visit.now, visit.speech.zone), None, ("", ""))


def _start(span: str, now: int, zone_name: str) -> int | None:
    """When a named window begins in a zone: midnight, seven days ago, the first of the month."""
    local = (_EPOCH + timedelta(microseconds=now)).astimezone(zone(zone_name))
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0)
    if span == "today":
        return _micros(midnight)
    if span == "month":
        return _micros(midnight.replace(day=1))
    return _micros(local - timedelta(days=7)) if span == "week" else None


def instant(text: str, zone_name: str) -> int | None:
    """`2026-05-01T08:30` on the zone's clock in µs UTC; None where nothing was typed."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone(zone_name))
        found = _micros(moment)
    except (ValueError, OverflowError):
        raise InvalidError("instant-invalid", text=text[:32]) from None
    if found < 0:
        raise InvalidError("instant-invalid", text=text[:32])
    return found


def _micros(moment: datetime) -> int:
    return (moment.astimezone(UTC) - _EPOCH) // _MICRO


def shift_of(zone_name: str, at: int) -> int:
    """How far a zone's clock is ahead of UTC at an instant, in µs."""
    ahead = (_EPOCH + timedelta(microseconds=at)).astimezone(zone(zone_name)).utcoffset()
    return (ahead or timedelta()) // _MICRO


def dated(at: int, zone_name: str) -> str:
    """An instant with its year on a zone's clock, to the minute, as plain text."""
    return (_EPOCH + timedelta(microseconds=at)).astimezone(zone(zone_name)).strftime("%Y-%m-%d %H:%M")

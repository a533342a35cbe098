"""Instants as people write them on the command line."""

from __future__ import annotations

import re
import time
from datetime import UTC, datetime

from steelyard.model.errors import InvalidError
from steelyard.model.units import parse_duration

_MICROS = re.compile(r"[0-9]{10,18}")


def instant(text: str | None, name: str) -> int | None:
    """µs UTC of `2026-03-01`, `2026-03-01T08:00:00Z`, µs as a number, or `2h` (ago); None for None.

    A time without a zone is UTC. Raises InvalidError with the option's name.
    """
    if text is None:
        return None
    if _MICROS.fullmatch(text):
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        pass
    else:
        at = found if found.tzinfo else found.replace(tzinfo=UTC)
        seconds = at - datetime(1970, 1, 1, tzinfo=UTC)
        return (seconds.days * 86_400 + seconds.seconds) * 1_000_000 + seconds.microseconds
    try:
        return time.time_ns() // 1000 - parse_duration(text)
    except InvalidError:
        raise InvalidError("argument-invalid", name=name, expected="2026-03-01T08:00:00Z | 2h") from None

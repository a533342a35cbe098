"""What the last part of a member's log says about its end.

The log is hostile input: only its last `TAIL` bytes are looked at, of those the last `MAX_LINES` lines, of
each line the first `MAX_LINE` bytes, by patterns without nested repetition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from steelyard.services.failure_catalogue import Catalogue, Rule

TAIL = 16 * 1024
MAX_LINES = 200
MAX_LINE = 400
MAX_TEXT = 200
_TRACEBACK = "Traceback (most recent call last):"
#: What launchers of many processes put before each line of one of them.
_RANK = re.compile(r"^\[(?:rank)?[0-9]{1,6}\]: ?")


@dataclass(frozen=True, slots=True)
class Line:
    """A line that a rule matched: its place in the log, the SHA-256 of its bytes, what was found in it."""

    rule: str
    member: str
    offset: int
    length: int
    digest: str
    text: str
    detail: str | None


def scan(catalogue: Catalogue, member: str, data: bytes, offset: int) -> tuple[Line, ...]:
    """The last line that matches each rule. `offset` is where `data` begins in the log.

    A first line that is cut off at its beginning is not looked at.
    """
    found: dict[str, Line] = {}
    rules = catalogue.lines()
    ends_traceback = False
    for begin, raw in _lines(data, offset):
        text = _RANK.sub("", raw[:MAX_LINE].decode("utf-8", "replace").rstrip())
        for rule in rules:
            if rule.traceback and not ends_traceback:
                continue
            line = _match(rule, member, text, raw, begin)
            if line is not None:
                found[rule.id] = line
                if not rule.exit_only:  # such a rule may not count in the end
                    break
        if text.strip() == _TRACEBACK:
            ends_traceback = True
        elif text and not text[0].isspace():
            ends_traceback = False
    return tuple(found.values())


def _lines(data: bytes, offset: int) -> list[tuple[int, bytes]]:
    """(offset, bytes without the line's end) of the last lines."""
    lines = []
    at = offset
    for number, raw in enumerate(data.split(b"\n")):
        if raw and not (number == 0 and offset > 0):
            lines.append((at, raw))
        at += len(raw) + 1
    return lines[-MAX_LINES:]


def _match(rule: Rule, member: str, text: str, raw: bytes, begin: int) -> Line | None:
    assert rule.pattern is not None
    matched = rule.pattern.search(text)
    if matched is None:
        return None
    detail = matched.groupdict().get("detail")
    digest = sha256(raw).hexdigest()
    return Line(rule.id, member, begin, len(raw), digest, printable(text), printable(detail) or None)


def printable(text: str | None) -> str:
    """Text that can be shown: no control characters, `MAX_TEXT` characters at most; None is empty."""
    plain = "".join(char if char.isprintable() else "�" for char in (text or "")[: MAX_TEXT + 1])
    return plain if len(plain) <= MAX_TEXT else plain[:MAX_TEXT] + "…"

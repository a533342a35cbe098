"""Reasons that people write: short, printable, never empty."""

from __future__ import annotations

from unicodedata import normalize

from steelyard.model.errors import InvalidError

MAX_REASON = 500


def check_reason(reason: str | None) -> str:
    """The reason in one spelling. Raises InvalidError `reason-missing`, `reason-invalid`."""
    said = normalize("NFC", (reason or "").strip())
    if not said:
        raise InvalidError("reason-missing")
    if len(said) > MAX_REASON or not said.isprintable():
        raise InvalidError("reason-invalid", most=MAX_REASON)
    return said

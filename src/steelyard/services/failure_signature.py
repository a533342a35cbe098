"""Signatures: equal for failures of one kind, whatever the numbers, paths and ids in what was said."""

from __future__ import annotations

import re
from hashlib import sha256

MAX_DETAIL = 200
#: What differs from one failure to the next without telling them apart, and what stands in its place.
_STEPS = (
    (re.compile(r"\b[a-z]{2}_[0-9a-hjkmnp-tv-z]{13}\b"), "<id>"),
    (re.compile(r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"), "<id>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<n>"),
    (re.compile(r"(?<![\w>])/[^\s'\",:;()\[\]<>]+"), "<path>"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{12,64}\b"), "<id>"),
    (re.compile(r"\d+(?:\.\d+)*"), "<n>"),
    (re.compile(r"\s+"), " "),
)


def normalise(detail: str) -> str:
    """The detail with ids, paths and numbers taken out, in one line."""
    plain = detail[:MAX_DETAIL]
    for pattern, placeholder in _STEPS:
        plain = pattern.sub(placeholder, plain)
    return plain.strip()


def signature(stage: str, code: str, detail: str | None = None, number: int | None = None) -> str:
    """16 hexadecimal digits. `number`: an exit code or a signal, which does tell failures apart."""
    parts = (stage, code, normalise(detail or ""), "" if number is None else str(number))
    return sha256("\n".join(parts).encode()).hexdigest()[:16]

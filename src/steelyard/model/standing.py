"""How far something is known to work, and what that makes of a whole: the worst of its parts.

Only a real run verifies. A document, an extension or a simulated run leaves what it speaks of pending.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Standing(StrEnum):
    """From best to worst."""

    VERIFIED = "verified"
    PENDING = "pending-verification"
    REFUSED = "refused"  # tried, and found not to work, or not allowed


_RANK = {standing: rank for rank, standing in enumerate(Standing)}


def worst_of(parts: Iterable[Standing]) -> Standing:
    """The standing of a whole. Of nothing nothing is known: a whole without parts is pending."""
    return max(parts, key=_RANK.__getitem__, default=Standing.PENDING)

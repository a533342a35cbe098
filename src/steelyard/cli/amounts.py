"""Quantities by class in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.cli.session import Session
from steelyard.locale import rendering
from steelyard.locale.rendering import CLASS_ORDER as ORDER

__all__ = ["ORDER", "amount", "amounts", "fewer"]
MAX_NAMED = 8


def amounts(session: Session, quantities: Mapping[str, int] | None) -> str:
    """`2 GPU, 4 CPU, 8 GiB of memory`; a dash where nothing is known."""
    return rendering.amounts(quantities, session.lang)


def amount(session: Session, subject: str, quantity: int) -> str:
    """A quantity of a class; of a flavor or a measure in its own unit, of which thousandths are counted."""
    return amounts(session, {subject: quantity}) if "/" not in subject else f"{quantity / 1000:g}"


def fewer(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a gang that goes on, for a sentence: which members leave it, of how many, and how many stay; None
    each where all of it stops."""
    members = row.get("members") or []
    shown = [f"{each['role']}/{each['index']}" for each in members[:MAX_NAMED]]
    more = ["…"] if len(members) > MAX_NAMED else []
    if not members:
        return {"members": None, "had": None, "stay": None}
    return {"members": ", ".join(shown + more), "had": row["had"], "stay": row["goes_on_with"]}

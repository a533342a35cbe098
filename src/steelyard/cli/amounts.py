"""Quantities by class in one cell."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.cli.session import Session
from steelyard.locale import rendering
from steelyard.locale.rendering import CLASS_ORDER as ORDER

__all__ = ["ORDER", "amount", "amounts"]


def amounts(session: Session, quantities: Mapping[str, int] | None) -> str:
    """`2 GPU, 4 CPU, 8 GiB of memory`; a dash where nothing is known."""
    return rendering.amounts(quantities, session.lang)


def amount(session: Session, subject: str, quantity: int) -> str:
    """A quantity of a class; of a flavor or a measure in its own unit, of which thousandths are counted."""
    return amounts(session, {subject: quantity}) if "/" not in subject else f"{quantity / 1000:g}"

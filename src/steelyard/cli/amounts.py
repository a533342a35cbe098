"""Quantities by class in one cell."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.cli.session import Session
from steelyard.locale import rendering
from steelyard.locale.rendering import CLASS_ORDER as ORDER

__all__ = ["ORDER", "amounts"]


def amounts(session: Session, quantities: Mapping[str, int] | None) -> str:
    """`2 GPU, 4 CPU, 8 GiB of memory`; a dash where nothing is known."""
    return rendering.amounts(quantities, session.lang)

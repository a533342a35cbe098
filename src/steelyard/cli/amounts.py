"""Quantities by class in one cell."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.cli.session import Session
from steelyard.locale.rendering import amount

#: Accelerators first, as people ask.
ORDER = ("gpu", "npu", "other", "cpu", "memory")


def amounts(session: Session, quantities: Mapping[str, int] | None) -> str:
    """`2 GPU, 4 CPU, 8 GiB of memory`; a dash where nothing is known."""
    if not quantities:
        return "–"
    known = sorted(quantities.items(), key=lambda item: (_rank(item[0]), item[0]))
    return session.text("reason.comma").join(amount(name, quantity, session.lang) for name, quantity in known)


def _rank(name: str) -> int:
    return ORDER.index(name) if name in ORDER else len(ORDER)

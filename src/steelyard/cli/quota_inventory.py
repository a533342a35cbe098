"""Quota against what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steelyard.cli.session import Session
from steelyard.model.units import format_quantity

_PARTS = ("owned", "there", "offered", "ghost", "unowned")


def compare(session: Session) -> None:
    """What queues own, and what is there of it."""
    found = session.client.quota_inventory()
    columns: list[Any] = [("cli.column.subject", "subject")]
    columns += [(f"cli.column.{part}", _amount(part)) for part in _PARTS]
    session.emit(found, lambda: _draw(session, columns, found))


def _draw(session: Session, columns: list[Any], found: list[dict[str, Any]]) -> None:
    session.table(columns, found)
    if any(row["ghost"] for row in found):
        session.say("cli.queues-inventory.ghost")


def _amount(part: str) -> Any:
    def shown(row: Mapping[str, Any]) -> str:
        return format_quantity(row["class"] or "other", row[part])

    return shown

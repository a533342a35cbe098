"""What became of every device that was found: registered, refused, duplicate, retired; when, how and why."""

from __future__ import annotations

from typing import Any

from steelyard.identity.authorise import authorise
from steelyard.model.ids import PREFIXES, parse, render
from steelyard.model.organisation import Principal, Verb
from steelyard.model.resources import RegistrationOutcome
from steelyard.services.inventory import NOUN
from steelyard.store import inventory as repository
from steelyard.store.scoped import Record, page_size
from steelyard.store.store import Store

Json = dict[str, Any]


def list_registrations(
    store: Store, principal: Principal, *, outcome: RegistrationOutcome | None = None,
    cursor: str | None = None, limit: int = 50,
) -> tuple[list[Json], str | None]:  # fmt: skip
    """A page, the newest first; `outcome`: only these."""
    authorise(principal, Verb.VIEW, NOUN)
    before, size = None if cursor is None else _number(cursor), page_size(limit)
    with store.read() as view:
        found: list[tuple[int, Json]] = []
        if outcome in (None, RegistrationOutcome.REGISTERED):
            rows = repository.registered_before(view, before, size)
            found += [(row["id"], _registered(row)) for row in rows]
        if outcome is not RegistrationOutcome.REGISTERED:
            others = repository.registrations(view, before, size, outcome)
            found += [(row["id"], _other(row)) for row in others]
    found.sort(key=lambda pair: pair[0], reverse=True)
    shown = [view for _, view in found[:size]]
    return shown, shown[-1]["id"] if len(shown) == size else None


def _number(cursor: str) -> int:
    return parse("device" if cursor.startswith(PREFIXES["device"]) else "registration", cursor)


def _registered(row: Record) -> Json:
    return {
        "id": render("device", row["id"]),
        "at": row["at"],
        "cluster": row["cluster"],
        "node": row["node"],
        "uid": row["uid"],
        "device": render("device", row["id"]),
        "outcome": "registered",
        "reason": None,
        "source": row["source"] or "inventory",
        "provenance": row["provenance"],
        "by": "control",
    }


def _other(row: Record) -> Json:
    return {
        "id": render("registration", row["id"]),
        "at": row["at"],
        "cluster": row["cluster"],
        "node": row["node"],
        "uid": row["uid"],
        "device": None if row["device_id"] is None else render("device", row["device_id"]),
        "outcome": row["outcome"],
        "reason": row["reason"],
        "source": row["source"],
        "provenance": None,
        "by": row["set_by"],
    }

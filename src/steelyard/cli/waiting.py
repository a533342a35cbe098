"""The order in which a queue's work is looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard import locale
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session


def order(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="QUEUE")],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=200)] = 50,
) -> None:
    """What waits in a queue, in order."""
    found = session.client.waiting_order(name, limit)
    session.emit(found, lambda: _draw(session, found))


def _draw(session: Session, found: Mapping[str, Any]) -> None:
    rows = [{**entry, "place": number} for number, entry in enumerate(found["waiting"], 1)]
    if not rows:
        session.say("cli.queues-waiting.none", queue=found["queue"])
        return
    columns: list[Any] = [
        ("cli.column.place", "place"),
        ("cli.column.name", lambda row: row["name"] or session.text("cli.explain.hidden")),
        ("cli.column.project", lambda row: row["project"] or " "),
        ("cli.column.priority", "priority"),
    ]
    if any(row["band"] != row["priority"] for row in rows):
        columns.append(("cli.column.band", "band"))
    columns.append(("cli.column.before-next", lambda row: _factor(session, row["before_next"])))
    session.table(columns, rows)
    if len(rows) < found["count"]:
        session.say("cli.queues-waiting.rest", shown=len(rows), count=found["count"])


def _factor(session: Session, factor: Mapping[str, Any] | None) -> str:
    """In a sentence with its numbers where the reader may see both."""
    if factor is None:
        return " "
    if factor["b"] is None:
        return session.word("factor", factor["name"])
    return one_line(locale.factor_text(factor, session.lang))

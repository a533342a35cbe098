"""What was refused, and what the scheduler decided."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steelyard.cli.amounts import amounts
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time

Limit = Annotated[int, typer.Option("--limit", metavar="N")]


def refusals(
    session: Session,
    refusal: Annotated[str | None, typer.Argument(metavar="REFUSAL")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME")] = None,
    limit: Limit = 50,
) -> None:
    """The newest refusals, or one with all its reasons."""
    if refusal is not None:
        found = session.client.refusal(refusal)
        session.emit(found, lambda: _refusal(session, found))
        return
    rows = session.client.refusals(max(limit, 1), project=project)
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.at", lambda row: format_time(row["at"])),
        ("cli.column.submitter", "submitter"),
        ("cli.column.project", "project"),
        ("cli.column.name", "name"),
        ("cli.column.requested", lambda row: amounts(session, row["asked"])),
        ("cli.column.why", lambda row: session.reason(row["reasons"][0]) if row["reasons"] else None),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def _refusal(session: Session, found: dict[str, Any]) -> None:
    session.say(
        "cli.refusals.one",
        id=found["id"], name=found["name"], at=found["at"], submitter=found["submitter"],
        amounts=amounts(session, found["asked"]),
    )  # fmt: skip
    for reason in found["reasons"]:
        session.line(f"  - {session.reason(reason)}")
    session.say("cli.refusals.policy", version=found["policy_version"], review=found["review_state"])


def cycles(
    session: Session,
    cycle: Annotated[str | None, typer.Argument(metavar="CYCLE")] = None,
    limit: Limit = 20,
) -> None:
    """The newest cycles that changed something, or one of them whole."""
    if cycle is not None:
        found = session.client.cycle(cycle)
        session.emit(found, lambda: None, default="yaml")
        return
    rows = session.client.cycles(max(limit, 1))

    def count(name: str) -> Any:
        return lambda row: (row.get("counts") or {}).get(name)

    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.at", lambda row: format_time(row["at"])),
        ("cli.column.placements", count("placements")),
        ("cli.column.evictions", count("evictions")),
        ("cli.column.holds", count("holds")),
        ("cli.column.policy-version", "policy_version"),
        ("cli.column.log-size", "log_size"),
    ]
    session.emit(rows, lambda: session.table(columns, rows))

"""What real runs verified: list, show, end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time

Record = Annotated[str, typer.Argument(metavar="VERIFICATION")]


def list_verifications(
    session: Session, standing: Annotated[bool, typer.Option("--standing")] = False
) -> None:
    """Every record in a line."""
    rows = session.client.verifications(standing=standing)
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.kind", lambda row: session.word("kind", row["kind"])),
        ("cli.column.family", "family"),
        ("cli.column.model", "model"),
        ("cli.column.pool", "pool"),
        ("cli.column.environment", _environment),
        ("cli.column.workload", "workload"),
        ("cli.column.standing", lambda row: session.word("standing", row["standing"])),
        ("cli.column.until", lambda row: format_time(row["ended_at"] or row["expires_at"])),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def show(session: Session, verification: Record) -> None:
    """One record whole."""
    found = session.client.verification(verification)
    session.emit(found, lambda: _page(session, found))


def end(
    session: Session,
    verification: Record,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT")],
) -> None:
    """Ends a record."""
    found = session.client.end_verification(verification, reason)
    session.emit(found, lambda: _page(session, found))


def _environment(row: Mapping[str, Any]) -> str:
    parts = [
        f"{key}={value if isinstance(value, str) else '|'.join(value)}"
        for key, value in row["environment"].items()
    ]
    return ", ".join(parts) or "–"


def _page(session: Session, found: Mapping[str, Any]) -> None:
    session.say(
        "cli.verification-show.one", id=found["id"], kind=session.word("kind", found["kind"]),
        family=found["family"], model=found["model"], pool=found["pool"] or "–",
        standing=session.word("standing", found["standing"]),
    )  # fmt: skip
    session.say("cli.verification-show.environment", values=_environment(found))
    for role, software in found["software"]["roles"].items():
        shown = software["image"] or software["venv"] or software["runtime"]
        session.say("cli.verification-show.software", role=role, software=shown)
    session.say("cli.verification-show.evidence", workload=found["workload"], leaf=found["leaf"])
    session.say(
        "cli.verification-show.issued", by=found["issued_by"], at=found["issued_at"],
        until=found["expires_at"],
    )  # fmt: skip
    if found["ended_at"] is not None:
        session.say(
            "cli.verification-show.ended", by=found["ended_by"], at=found["ended_at"],
            reason=found["end_reason"],
        )  # fmt: skip

"""The register of workloads: can we take this in?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.session import Session


def list_entries(session: Session) -> None:
    """Every entry with its answer."""
    rows = session.client.register()
    columns: list[Any] = [
        ("cli.column.name", "name"),
        ("cli.column.kind", lambda row: session.word("kind", row["kind"])),
        ("cli.column.requested", lambda row: _requests(row)),
        ("cli.column.environment", lambda row: _needs(row)),
        ("cli.column.period", "period"),
        ("cli.column.answer", lambda row: session.word("register-answer", row["answer"])),
        ("cli.column.why", lambda row: _first(session, row)),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def show(session: Session, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """One entry, with what each pool says."""
    found = session.client.register_entry(name)

    def draw() -> None:
        answer = session.word("register-answer", found["answer"])
        session.say(
            "cli.register-show.one", name=found["name"], kind=session.word("kind", found["kind"]),
            answer=answer, version=found["version"],
        )  # fmt: skip
        session.say("cli.register-show.asks", requests=_requests(found), needs=_needs(found) or "–")
        session.say("cli.register-show.boundaries", boundaries=found["boundaries"] or "–")
        for reason in found["reasons"]:
            session.line(f"  - {session.reason(reason)}")
        for pool in found["pools"]:
            told = session.word("register-answer", pool["answer"])
            session.say("cli.register-show.pool", pool=pool["pool"], answer=told)

    session.emit(found, draw)


def _requests(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in row["requests"].items())


def _needs(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in (row.get("needs") or {}).items())


def _first(session: Session, row: Mapping[str, Any]) -> str | None:
    return session.reason(row["reasons"][0]) if row["reasons"] else None

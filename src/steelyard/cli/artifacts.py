"""Results of a workload."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steelyard.cli.session import Session


def artifacts(session: Session, workload: Annotated[str, typer.Argument(metavar="WORKLOAD")]) -> None:
    """What its members left, with digests."""
    found = session.client.artifacts(session.client.find(workload))
    rows = [
        {**one, "place": f"{member['number']}: {member['role']}/{member['index']}"}
        for member in found
        for one in member["files"] or ()
    ]
    columns: list[Any] = [
        ("cli.column.member", "place"),
        ("cli.column.path", "path"),
        ("cli.column.bytes", "bytes"),
        ("cli.column.sha256", lambda row: row["sha256"] or "–"),
        ("cli.column.state", lambda row: session.word("artifact", "there" if row["there"] else "removed")),
    ]
    session.emit(found, lambda: session.table(columns, rows))

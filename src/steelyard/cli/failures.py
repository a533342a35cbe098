"""Recurring failures, the worst first."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

import typer

from steelyard.cli.choices import one_of
from steelyard.cli.instants import instant
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.failures import Group, Stage
from steelyard.model.units import format_duration

Text = str | None


class Order(StrEnum):
    """What the worst is."""

    COUNT = "count"
    LOST_TIME = "lost-time"
    NEWEST = "newest"


def failures(
    session: Session,
    project: Annotated[Text, typer.Option("--project", metavar="NAME")] = None,
    stage: Annotated[Text, typer.Option("--stage", metavar="STAGE")] = None,
    group: Annotated[Text, typer.Option("--group", metavar="GROUP")] = None,
    start: Annotated[Text, typer.Option("--from", metavar="TIME")] = None,
    end: Annotated[Text, typer.Option("--to", metavar="TIME")] = None,
    order: Annotated[str, typer.Option("--order", metavar="ORDER")] = "count",
    limit: Annotated[int, typer.Option("--limit", metavar="N")] = 20,
) -> None:
    """Failures grouped by signature."""
    one_of(stage, "--stage", Stage)
    one_of(group, "--group", Group)
    one_of(order, "--order", Order)
    found = session.client.failures(
        instant(start, "--from"), instant(end, "--to"),
        project=project, stage=stage, group=group, order=order, limit=limit,
    )  # fmt: skip
    session.emit(found, lambda: _draw(session, found))


def _why(session: Session, verdict: Mapping[str, Any]) -> str:
    """What happened, with what was found by name: a module, an exception."""
    cause, detail = session.cause(verdict), verdict.get("detail")
    return cause if not detail or detail in cause else f"{cause} [{one_line(detail)}]"


def _draw(session: Session, found: dict[str, Any]) -> None:
    if not found["items"]:
        session.say("cli.failures.none")
        return
    columns: list[Any] = [
        ("cli.column.count", lambda row: f"{row['count']}{session.simulated(row)}"),
        ("cli.column.lost", lambda row: format_duration(row["lost_time"])),
        ("cli.column.stage", lambda row: session.word("stage", row["verdict"]["stage"])),
        ("cli.column.whose", lambda row: session.word("group", row["verdict"]["group"])),
        ("cli.column.why", lambda row: _why(session, row["verdict"])),
        ("cli.column.action", lambda row: session.action(row["verdict"])),
        ("cli.column.last", lambda row: format_time(row["last_at"])),
        ("cli.column.newest", lambda row: row["newest"].get("workload") or row["newest"].get("refusal")),
    ]
    rows = [row for row in found["items"] if row["verdict"]]
    session.table(columns, rows)
    session.say(
        "cli.failures.sum",
        failures=found["failures"], refusals=found["refusals"], groups=found["groups"],
        lost=found["lost_time"], unknown=found["by_stage"].get("unknown", 0),
    )  # fmt: skip

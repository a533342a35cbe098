"""Workloads that are there: list, show, and what may be done with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli import page
from steelyard.cli.amounts import amounts
from steelyard.cli.choices import one_of
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.lifecycle import Outcome, Phase
from steelyard.model.workloads import WorkloadKind

Workload = Annotated[str, typer.Argument(metavar="WORKLOAD")]
Text = str | None


def list_workloads(
    session: Session,
    project: Annotated[Text, typer.Option("--project", metavar="NAME")] = None,
    namespace: Annotated[Text, typer.Option("--namespace", "-n", metavar="NAME")] = None,
    kind: Annotated[Text, typer.Option("--kind", metavar="KIND")] = None,
    phase: Annotated[Text, typer.Option("--phase", metavar="PHASE")] = None,
    outcome: Annotated[Text, typer.Option("--outcome", metavar="OUTCOME")] = None,
    queue: Annotated[Text, typer.Option("--queue", metavar="NAME")] = None,
    name: Annotated[Text, typer.Option("--name", metavar="TEXT")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N")] = 50,
) -> None:
    """The newest workloads."""
    one_of(kind, "--kind", WorkloadKind)
    one_of(phase, "--phase", Phase, "live")
    one_of(outcome, "--outcome", Outcome)
    rows = session.client.workloads(
        max(limit, 1) + 1,
        project=project, namespace=namespace, kind=kind, phase=phase, outcome=outcome, queue=queue, q=name,
    )  # fmt: skip
    shown = rows[: max(limit, 1)]
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.name", "name"),
        ("cli.column.project", "project"),
        ("cli.column.kind", lambda row: session.word("kind", row["kind"])),
        ("cli.column.state", lambda row: state(session, row)),
        ("cli.column.requested", lambda row: amounts(session, row["requested"])),
        ("cli.column.submitted", lambda row: format_time(row["submitted_at"])),
        ("cli.column.cluster", lambda row: (row["cluster"] or "–") + session.simulated(row)),
        ("cli.column.why", lambda row: _why(session, row)),
    ]
    session.emit(shown, lambda: session.table(columns, shown))
    if len(rows) > len(shown) and session.output in (None, "table"):
        session.note("cli.list.more", count=len(shown))


def state(session: Session, row: Mapping[str, Any]) -> str:
    """Phase, or how it ended; of a service or an array how many of it run."""
    group = row.get("group")
    if group and group["index"] == 0:
        return page.group_state(session, group)
    if row["phase"] == "finished" and row["outcome"]:
        return session.word("outcome", row["outcome"])
    shown = session.word("phase", row["phase"])
    return f"{shown} ({session.word('sub-stage', row['sub_stage'])})" if row.get("sub_stage") else shown


def _why(session: Session, row: Mapping[str, Any]) -> str | None:
    if page.is_failure(row):
        return session.cause(row["verdict"])
    reason = row.get("first_reason")
    return session.word("why", reason["code"]) if reason else None


def show(session: Session, workload: Workload) -> None:
    """The page of one workload."""
    view = session.client.workload(session.client.find(workload))
    session.emit(view, lambda: page.draw(session, view))


def cancel(session: Session, workload: Workload) -> None:
    """Asks it to end."""
    _act(session, "cancel", workload)


def retry(session: Session, workload: Workload) -> None:
    """Lets it try again."""
    _act(session, "retry", workload)


def scale(
    session: Session, workload: Workload, replicas: Annotated[int, typer.Argument(metavar="REPLICAS", min=1)]
) -> None:
    """Asks for another number of replicas."""
    view = session.client.scale(session.client.find(workload), replicas)

    def draw() -> None:
        session.say("cli.scale.done", name=view["name"], id=view["id"], replicas=replicas)
        page.draw_group(session, view)

    session.emit(view, draw)


def hold(session: Session, workload: Workload) -> None:
    """Takes it out of the queue."""
    _act(session, "hold", workload)


def release(session: Session, workload: Workload) -> None:
    """Puts it back into the queue."""
    _act(session, "release", workload)


def _act(session: Session, verb: str, workload: str) -> None:
    view = getattr(session.client, verb)(session.client.find(workload))
    session.emit(
        view, lambda: session.say(f"cli.{verb}.done", name=view["name"], id=view["id"], phase=view["phase"])
    )

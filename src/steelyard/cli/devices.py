"""What operators decide about nodes and devices: cordon, drain, maintenance, fence, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli import inventory as table
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.cli.support import of_device
from steelyard.locale.rendering import format_time
from steelyard.model.units import format_duration

On = Annotated[str, typer.Argument(metavar="NODE|DEVICE")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT")]
DryRun = Annotated[bool, typer.Option("--dry-run")]
Json = Mapping[str, Any]


def show(session: Session, device: Annotated[str, typer.Argument(metavar="DEVICE")]) -> None:
    """A device with the history of its facts, its health and its flags."""
    found = session.client.device(device)

    def draw() -> None:
        parts = (found["id"], session.word("class", found["class"]), found.get("model") or "–", found["uid"])
        session.line("  ".join(one_line(part) for part in parts) + session.simulated(found))
        session.say("cli.device.place", cluster=found["cluster"], node=found["node"], pool=found.get("pool"))
        of_device(session, found.get("support"))
        session.say(
            "cli.device.state",
            state=table.state(session, found),
            capacity=table.quantity(found, "capacity"),
            free=table.quantity(found, "free"),
        )
        session.say(
            "cli.device.health",
            health=table.health(session, found),
            requestable=table.requestable(session, found),
            holders=table.holders(found) or None,
        )
        for sign in found.get("signs") or ():
            session.line("  " + _sign(session, sign))
        _histories(session, found)

    session.emit(found, draw)


def _sign(session: Session, sign: Json) -> str:
    parts = (session.word("sign", sign["code"]), session.word("sign-source", sign["source"]), sign["detail"])
    return one_line(" · ".join(part for part in parts if part))


def _histories(session: Session, found: Json) -> None:
    facts: list[Any] = [
        ("cli.column.fact", "key"),
        ("cli.column.value", "value"),
        ("cli.column.provenance", lambda row: session.word("provenance", row["provenance"])),
        ("cli.column.source", "source"),
        ("cli.column.since", lambda row: format_time(row["valid_from"])),
        ("cli.column.until", lambda row: format_time(row["valid_to"])),
    ]
    states: list[Any] = [
        ("cli.column.since", lambda row: format_time(row["t0"])),
        ("cli.column.until", lambda row: format_time(row["t1"])),
        ("cli.column.availability", lambda row: session.word("availability", row["availability"])),
        ("cli.column.why", lambda row: session.word("unavailable", row["reason"])),
    ]
    healths: list[Any] = [
        ("cli.column.since", lambda row: format_time(row["valid_from"])),
        ("cli.column.until", lambda row: format_time(row["valid_to"])),
        ("cli.column.health", lambda row: table.health(session, row)),
        ("cli.column.holders", table.holders),
    ]
    flagged: list[Any] = [
        *_flag_columns(session),
        ("cli.column.until", lambda row: format_time(row["until"])),
        ("cli.column.lifted-by", "lifted_by"),
    ]
    for name, columns in (
        ("facts", facts), ("availability_history", states), ("health_history", healths),
        ("flag_history", flagged),
    ):  # fmt: skip
        if found.get(name):
            session.line()
            session.table(columns, found[name])


def flags(session: Session) -> None:
    """Flags that stand."""
    rows = session.client.flags()
    columns: list[Any] = [
        ("cli.column.cluster", "cluster"),
        ("cli.column.on", "name"),
        *_flag_columns(session),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def cordon(session: Session, on: On, reason: Reason) -> None:
    """Nothing new is placed there; what runs goes on."""
    _act(session, on, "cordon", reason)


def uncordon(session: Session, on: On, reason: Reason) -> None:
    """Offered again."""
    _act(session, on, "uncordon", reason)


def drain(
    session: Session,
    on: On,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT")] = None,
    dry_run: DryRun = False,
) -> None:
    """Cordoned, and what runs there is asked to leave."""
    if dry_run:
        _departures(session, on, at_once=False)
    else:
        _act(session, on, "drain", reason or "")


def maintenance(
    session: Session,
    on: On,
    reason: Reason,
    drain: Annotated[bool, typer.Option("--drain")] = False,
) -> None:
    """Out of service as planned."""
    _act(session, on, "maintenance", reason, drain=drain)


def fence(
    session: Session,
    on: On,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT")] = None,
    dry_run: DryRun = False,
) -> None:
    """Out of service at once, with what runs there."""
    if dry_run:
        _departures(session, on, at_once=True)
    else:
        _act(session, on, "fence", reason or "")


def verify(
    session: Session,
    device: Annotated[str, typer.Argument(metavar="DEVICE")],
    workload: Annotated[str, typer.Option("--workload", metavar="WORKLOAD")],
    valid_for: Annotated[str | None, typer.Option("--valid-for", metavar="TIME")] = None,
) -> None:
    """A workload that ran on it verifies its model."""
    found = session.client.verify_device(device, workload, valid_for=valid_for)
    session.emit(
        found,
        lambda: session.say(
            "cli.device-verify.done", id=found["verification"], kind=session.word("kind", found["kind"]),
            family=found["family"], model=found["model"], until=found["expires_at"],
        ),
    )  # fmt: skip


def retire(
    session: Session, device: Annotated[str, typer.Argument(metavar="DEVICE")], reason: Reason
) -> None:
    """A missing device is given up."""
    found = session.client.retire_device(device, reason)
    session.emit(found, lambda: session.say("cli.device-retire.done", uid=found["uid"]))


def _act(session: Session, on: str, act: str, reason: str, *, drain: bool = False) -> None:
    found = session.client.flag(on, act, reason, drain=drain)

    def draw() -> None:
        name = one_line(found["uid"] or found["node"])
        session.say("cli.device-flags.now", name=name, cluster=found["cluster"], count=len(found["flags"]))
        if found["flags"]:
            session.table(_flag_columns(session), found["flags"])

    session.emit(found, draw)


def _flag_columns(session: Session) -> list[Any]:
    return [
        ("cli.column.flag", lambda row: session.word("flag", row["flag"])),
        ("cli.column.drain", lambda row: session.word("drain", row["drain"])),
        ("cli.column.by", "by"),
        ("cli.column.since", lambda row: format_time(row["since"])),
        ("cli.column.why", lambda row: one_line(row["reason"])),
    ]


def _departures(session: Session, on: str, *, at_once: bool) -> None:
    found = session.client.departures(on, at_once=at_once)
    columns: list[Any] = [
        ("cli.column.workload", "name"),
        ("cli.column.project", "project"),
        ("cli.column.kind", lambda row: session.word("kind", row["kind"])),
        ("cli.column.priority", "priority"),
        ("cli.column.grace", lambda row: format_duration(row["grace"])),
        ("cli.column.leaves", lambda row: session.word("leaves", row["leaves"])),
        ("cli.column.queue", "goes_to"),
        ("cli.column.id", "workload"),
    ]

    def draw() -> None:
        if found["departures"]:
            session.table(columns, found["departures"])
        session.say("cli.device-drain.would", count=len(found["departures"]))

    session.emit(found, draw)

"""The inventory as tables: of now, of a past instant, what changed between two, what became of finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.choices import one_of
from steelyard.cli.instants import instant
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.resources import DeviceClass, RegistrationOutcome
from steelyard.model.units import format_quantity

Text = str | None
Row = Mapping[str, Any]
Time = Annotated[str, typer.Argument(metavar="TIME")]
PARTS = ("capacity", "held", "free", "reserved", "unavailable", "unknown")
_MOST = 60


def at(
    session: Session,
    time: Time,
    cluster: Annotated[Text, typer.Option("--cluster", metavar="NAME")] = None,
    device_class: Annotated[Text, typer.Option("--class", metavar="CLASS")] = None,
    pool: Annotated[Text, typer.Option("--pool", metavar="NAME")] = None,
    summary: Annotated[bool, typer.Option("--summary")] = False,
) -> None:
    """Devices as they were."""
    one_of(device_class, "--class", DeviceClass)
    when = instant(time, "TIME")
    if summary:
        found = session.client.inventory_summary(when)
        session.emit(found, lambda: session.table(sum_columns(session), found["classes"]))
        return
    query: dict[str, Any] = {"cluster": cluster, "class": device_class, "pool": pool, "at": when}
    nodes = session.client.inventory(**query)

    def draw() -> None:
        session.say("cli.inventory-at.then", at=when)
        session.table(device_columns(session), device_rows(nodes))

    session.emit(nodes, draw)


def diff(
    session: Session,
    start: Annotated[str, typer.Argument(metavar="FROM")],
    end: Annotated[Text, typer.Argument(metavar="TO")] = None,
) -> None:
    """What changed between two instants."""
    first = instant(start, "FROM")
    assert first is not None
    found = session.client.inventory_diff(first, instant(end, "TO"))
    columns: list[Any] = [
        ("cli.column.when", lambda row: format_time(row["at"])),
        ("cli.column.cluster", "cluster"),
        ("cli.column.on", "name"),
        ("cli.column.what", lambda row: _what(session, row)),
        ("cli.column.from", lambda row: _value(session, row, "before")),
        ("cli.column.to", lambda row: _value(session, row, "after")),
        ("cli.column.by", "by"),
        ("cli.column.why", lambda row: _why(session, row)),
    ]

    def draw() -> None:
        session.table(columns, found["changes"])
        if not found["complete"]:
            session.say("cli.inventory-diff.cut")

    session.emit(found, draw)


def registrations(
    session: Session,
    outcome: Annotated[Text, typer.Option("--outcome", metavar="OUTCOME")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N")] = 50,
) -> None:
    """What became of every device that was found."""
    one_of(outcome, "--outcome", RegistrationOutcome)
    rows = session.client.registrations(max(limit, 1), outcome=outcome)
    columns: list[Any] = [
        ("cli.column.when", lambda row: format_time(row["at"])),
        ("cli.column.cluster", "cluster"),
        ("cli.column.node", "node"),
        ("cli.column.uid", lambda row: one_line(row["uid"])),
        ("cli.column.outcome", lambda row: session.word("registration", row["outcome"])),
        ("cli.column.why", lambda row: session.word("registration-why", row["reason"])),
        ("cli.column.source", lambda row: one_line(row["source"])),
        ("cli.column.provenance", lambda row: session.word("provenance", row["provenance"])),
        ("cli.column.by", "by"),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


# --- tables of devices and sums ----------------------------------------------------------------------
def device_rows(nodes: Iterable[Row]) -> list[dict[str, Any]]:
    """Devices of these nodes, each with its node and cluster."""
    return [
        {**device, "node": node["name"], "cluster": node["cluster"]}
        for node in nodes
        for device in node["devices"]
    ]


def device_columns(session: Session) -> list[Any]:
    """What is told of a device in a line."""
    return [
        ("cli.column.cluster", "cluster"),
        ("cli.column.node", "node"),
        ("cli.column.class", lambda row: session.word("class", row["class"])),
        ("cli.column.model", lambda row: f"{row['model'] or '–'}{session.simulated(row)}"),
        ("cli.column.capacity", lambda row: quantity(row, "capacity")),
        ("cli.column.free", lambda row: quantity(row, "free")),
        ("cli.column.state", lambda row: state(session, row)),
        ("cli.column.health", lambda row: health(session, row)),
        ("cli.column.flags", lambda row: flags(session, row)),
        ("cli.column.requestable", lambda row: requestable(session, row)),
        ("cli.column.pool", "pool"),
        ("cli.column.provenance", lambda row: session.word("provenance", row.get("provenance"))),
        ("cli.column.holders", holders),
        ("cli.column.uid", "uid"),
    ]


def sum_columns(session: Session) -> list[Any]:
    """Sums by cluster and class."""
    return [
        ("cli.column.cluster", lambda row: row["cluster"] + session.simulated(row)),
        ("cli.column.class", lambda row: session.word("class", row["class"])),
        *((f"cli.column.{part}", _part(part)) for part in PARTS),
    ]


def _part(part: str) -> Any:
    return lambda row: quantity(row, part)


def quantity(row: Row, part: str) -> str:
    """A quantity of a device's class."""
    return format_quantity(row["class"], row.get(part))


def state(session: Session, row: Row) -> str:
    """Its state, with the reason and the words beside it."""
    shown = session.word("state", row["state"])
    if not row.get("reason"):
        return shown
    why = session.word("unavailable", row["reason"])
    text = row.get("reason_text")
    return f"{shown} ({why}: {one_line(text)[:_MOST]})" if text else f"{shown} ({why})"


def health(session: Session, row: Row) -> str:
    """Its health, with its worst sign."""
    signs = row.get("signs") or ()
    shown = session.word("health", row.get("health"))
    return f"{shown} ({session.word('sign', signs[0]['code'])})" if signs else shown


def flags(session: Session, row: Row) -> str:
    """The flags that stand on it."""
    return ", ".join(session.word("flag", flag["flag"]) for flag in row.get("flags") or ())


def requestable(session: Session, row: Row) -> str:
    """Whether it can be asked for now, and why not."""
    if "requestable" not in row:
        return "–"
    if row["requestable"]:
        return session.word("yes-no", "yes")
    return f"{session.word('yes-no', 'no')} ({session.word('why-not', row.get('why_not'))})"


def holders(row: Row) -> str:
    """Workloads that hold it, and processes on it that no workload owns."""
    shown = []
    for holder in row.get("holders") or ():
        amount = format_quantity(row["class"], holder["quantity"])
        shown.append(f"{holder.get('name') or holder.get('workload') or '…'} ({amount})")
    for process in row.get("processes") or ():
        shown.append(one_line(f"{process['name'] or '?'} [pid {process['pid'] or '?'}]"))
    return ", ".join(shown)


def _what(session: Session, row: Row) -> str:
    shown = session.word("change", row["what"])
    return f"{shown} {one_line(row['key'])}" if row["key"] and row["what"] != "flag" else shown


def _value(session: Session, row: Row, side: str) -> str:
    value = row[side]
    if value is None:
        return "–"
    words = {"health": "health", "flag": "flag", "registration": "registration"}
    if row["what"] in words:
        return session.word(words[row["what"]], value)
    if row["what"] == "state":
        availability, _, reason = str(value).partition(": ")
        shown = session.word("availability", availability)
        return f"{shown} ({session.word('unavailable', reason)})" if reason else shown
    return one_line(str(value))


def _why(session: Session, row: Row) -> str:
    if row["why"] is None:
        return "–"
    kinds = {"health": "sign", "state": "unavailable", "capacity": "unavailable"}
    if row["what"] == "registration" and row["after"] == "retired":
        return session.word("registration-why", row["why"])
    if row["what"] in kinds:
        return session.word(kinds[row["what"]], row["why"])
    known = ("engine", "pools")
    return session.word("change-why", row["why"]) if row["why"] in known else one_line(str(row["why"]))

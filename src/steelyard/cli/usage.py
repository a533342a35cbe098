"""Who used what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import ORDER
from steelyard.cli.instants import instant
from steelyard.cli.session import Session
from steelyard.model.units import HOUR, SECOND, format_duration

_STATES = ("starting", "running", "stopping", "releasing")


def usage(
    session: Session,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME")] = None,
    by: Annotated[str, typer.Option("--by", metavar="KEYS")] = "project,kind,class",
) -> None:
    """Held quantity × time by keys, beside what nobody held; both sum to capacity × time."""
    found = session.client.usage(instant(start, "--from"), instant(end, "--to"), by)
    session.emit(found, lambda: _draw(session, found, by.split(",")))


def _draw(session: Session, found: Mapping[str, Any], keys: list[str]) -> None:
    session.say("cli.usage-page.window", start=found["from"], end=found["to"])
    columns: list[Any] = [(f"cli.column.{key}", _key(session, key)) for key in keys]
    columns += [("cli.column.simulated", lambda row: session.simulated(row).strip())]
    columns += [("cli.column.held-time", lambda row: _hours(row.get("class"), row["held"]))]
    columns += [(f"cli.column.{state}", _state(state)) for state in _STATES]
    session.table(columns, found["rows"])
    session.line()
    idle: list[Any] = [
        ("cli.column.class", _key(session, "class")),
        ("cli.column.simulated", lambda row: session.simulated(row).strip()),
        ("cli.column.state", lambda row: session.word("state", row["state"])),
        ("cli.column.quantity-time", lambda row: _hours(row["class"], row["quantity_time"])),
    ]
    session.table(idle, sorted(found["unheld"], key=_class_rank))
    if found.get("unattributed"):
        session.line()
        session.say("cli.usage-page.unattributed")
        session.table([column for index, column in enumerate(idle) if index != 2], found["unattributed"])
    session.line()
    capacity: list[Any] = [
        ("cli.column.class", _key(session, "class")),
        ("cli.column.simulated", lambda row: session.simulated(row).strip()),
        ("cli.column.capacity-time", lambda row: _hours(row["class"], row["capacity_time"])),
    ]
    session.table(capacity, sorted(found["capacity"], key=_class_rank))
    if found.get("waits"):
        session.line()
        waits: list[Any] = [
            ("cli.column.project", "project"),
            ("cli.column.kind", lambda row: session.word("kind", row["kind"])),
            ("cli.column.why", lambda row: session.word("wait", row["reason"])),
            ("cli.column.time", lambda row: format_duration(int(row["time"]))),
            ("cli.column.count", "count"),
        ]
        session.table(waits, found["waits"])
    _closing(session, found)


def _closing(session: Session, found: Mapping[str, Any]) -> None:
    session.line()
    counts = found.get("counts") or {}
    session.say(
        "cli.usage-page.counts",
        submitted=counts.get("submitted"),
        refused=counts.get("refused"),
        finished=sum((counts.get("finished") or {}).values()),
        live=counts.get("live"),
    )
    session.say("cli.usage-page.closes" if found.get("closes") else "cli.usage-page.not-closes")
    if not found.get("complete", True):
        session.say("cli.usage-page.incomplete")


def _key(session: Session, key: str) -> Any:
    def shown(row: Mapping[str, Any]) -> object:
        value = row.get(key)
        return session.word(key, value) if key in ("class", "kind") and value is not None else value

    return shown


def _state(state: str) -> Any:
    return lambda row: _hours(row.get("class"), (row.get("by_state") or {}).get(state))


def _class_rank(row: Mapping[str, Any]) -> tuple[int, str]:
    name = row["class"]
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def _hours(device_class: str | None, product: str | None) -> str | None:
    """`0.250 h`, `12.500 s`: quantity × time; of memory `GiB·h`. The exact product is in `-o json`."""
    if product is None:
        return None
    whole, unit = (1024, "GiB·") if device_class == "memory" else (1000, "")
    span, name = (HOUR, "h") if int(product) >= whole * HOUR // 10 else (SECOND, "s")
    thousandths = int(product) * 1000 // (whole * span)
    return f"{thousandths // 1000}.{thousandths % 1000:03d} {unit}{name}"

"""The vocabulary of labels: list, lint, history."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time


def list_labels(session: Session) -> None:
    """The labels in force, and foreign keys beside them."""
    found = session.client.labels()
    columns: list[Any] = [
        ("cli.column.label", "key"),
        ("cli.column.values", lambda row: "*" if row["values"] is None else ", ".join(row["values"])),
        ("cli.column.set-by", lambda row: ", ".join(session.word("set-by", who) for who in row["set_by"])),
        ("cli.column.use", lambda row: _use(session, row)),
        ("cli.column.nodes", "nodes"),
        ("cli.column.meaning", lambda row: _meaning(session, row)),
    ]

    def draw() -> None:
        code = "cli.label-list.declared" if found["declared"] else "cli.label-list.built-in"
        session.say(code, version=found["version"])
        session.table(columns, found["keys"])
        for row in found["foreign"]:
            session.say("cli.label-list.foreign", key=row["key"], count=row["count"])

    session.emit(found, draw)


def _use(session: Session, row: dict[str, Any]) -> str:
    words = ["placement" if row["placement"] else "not-placement"]
    words += ["low-level"] if row["low_level"] else []
    words += ["inherited"] if row["inherited"] else []
    return ", ".join(session.word("label-use", word) for word in words)


def _meaning(session: Session, row: dict[str, Any]) -> str | None:
    said: str | None = row["meaning"].get(session.lang) or row["meaning"].get("en")
    return said


def lint(session: Session) -> None:
    """Too few, too many, unused, foreign."""
    found = session.client.label_lint()

    def draw() -> None:
        figures = found["figures"]
        session.say("cli.label-lint.sum", keys=found["keys"], **figures)
        for row in found["too_few"]:
            session.say("cli.label-lint.too-few", **row)
        for row in found["too_many"]["requests"]["keys"]:
            session.say("cli.label-lint.too-many", **row)
        for row in found["too_many"]["from_templates"]["keys"]:
            session.say("cli.label-lint.too-many-template", **row)
        for key in found["too_many"]["demanded_by_pools"]:
            session.say("cli.label-lint.demanded", key=key)
        for key in found["unused"]:
            session.say("cli.label-lint.unused", key=key)
        for row in found["foreign"]:
            session.say("cli.label-list.foreign", key=row["key"], count=row["count"])

    session.emit(found, draw)


def history(
    session: Session, label: Annotated[str | None, typer.Argument(metavar="LABEL")] = None
) -> None:
    """When labels changed, who did it and why."""
    found = session.client.label_history(label)
    changes: list[Any] = [
        ("cli.column.since", lambda row: format_time(row["at"])),
        ("cli.column.label", "key"),
        ("cli.column.change", lambda row: session.word("label-change", row["change"])),
        ("cli.column.actor", "by"),
        ("cli.column.why", "reason"),
        ("cli.column.version", "version"),
    ]
    nodes: list[Any] = [
        ("cli.column.since", lambda row: format_time(row["from"])),
        ("cli.column.until", lambda row: format_time(row["until"])),
        ("cli.column.label", "key"),
        ("cli.column.value", "value"),
        ("cli.column.cluster", "cluster"),
        ("cli.column.node", "node"),
        ("cli.column.source", "set_by"),
    ]

    def draw() -> None:
        session.table(changes, found["vocabulary"])
        session.line()
        session.table(nodes, found["nodes"])

    session.emit(found, draw)

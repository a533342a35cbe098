"""The five questions of a review."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.instants import instant
from steelyard.cli.session import Session

MOST_ROWS = 5
#: Question → columns of its rows: (heading, key).
_COLUMNS: dict[str, tuple[tuple[str, str], ...]] = {
    "idle": (
        ("cluster", "cluster"), ("class", "class"), ("simulated", "simulated"), ("idle", "permille"),
        ("why", "cause"),
    ),
    "queueing": (("kind", "kind"), ("waits", "waits"), ("mean-wait", "mean"), ("why", "reason")),
    "failures": (
        ("failure", "failure"), ("stage", "stage"), ("count", "count"), ("responsible", "responsible"),
        ("simulated", "simulated"),
    ),
    "unattributed": (("project", "project"), ("class", "class"), ("simulated", "simulated")),
    "next": (),
}  # fmt: skip


def review(
    session: Session,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME")] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME")] = None,
) -> None:
    """Each question, its answer, and the rows behind it."""
    found = session.client.review(instant(start, "--from"), instant(end, "--to"))

    def draw() -> None:
        session.say("cli.usage-page.window", start=found["from"], end=found["to"])
        for question, answer in found["answers"].items():
            session.line()
            session.say(f"report.review.{question}.question")
            session.line("  " + sentence(session, question, answer))
            _rows(session, question, answer["rows"][:MOST_ROWS])

    session.emit(found, draw)


def sentence(session: Session, question: str, answer: Mapping[str, Any]) -> str:
    """The answer in words."""
    return session.text(f"report.review.{question}.{answer['code']}", **answer["params"])


def _rows(session: Session, question: str, rows: list[Mapping[str, Any]]) -> None:
    columns: list[Any] = [
        (f"cli.column.{heading}", lambda row, key=key: _cell(session, question, key, row))
        for heading, key in _COLUMNS[question]
    ]
    if rows and columns:
        session.table(columns, rows)


def _cell(session: Session, question: str, key: str, row: Mapping[str, Any]) -> object:
    value = row.get(key)
    if value is None:
        return None
    if key == "simulated":
        return session.simulated(row).strip()
    if key == "permille":
        return f"{value // 10}.{value % 10} %"
    if key == "mean":
        return session.text("report.review.mean", mean=value)
    word = {"class": "class", "kind": "kind", "stage": "stage", "responsible": "responsible",
            "cause": "state", "reason": "wait"}.get(key)  # fmt: skip
    return session.word(word, value) if word else value

"""What a workload wrote."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated

import typer

from steelyard.cli.safe import LogText
from steelyard.cli.session import Session


def logs(
    session: Session,
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD")],
    follow: Annotated[bool, typer.Option("--follow", "-f")] = False,
    member: Annotated[str | None, typer.Option("--member", metavar="ROLE/INDEX")] = None,
    raw: Annotated[bool, typer.Option("--raw")] = False,
) -> None:
    """A member's log: bytes as they are on a pipe or with `--raw`, made harmless on a terminal."""
    workload_id = session.client.find(workload)
    read = session.client.follow_logs if follow else session.client.logs
    pieces = read(workload_id, member)
    if session.output in ("json", "yaml"):
        _as_data(session, workload_id, member, pieces)
    elif raw or not sys.stdout.isatty():
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    else:
        _visible(pieces)


def _visible(pieces: Iterable[bytes]) -> None:
    text = LogText()
    for piece in pieces:
        sys.stdout.write(text.feed(piece))
        sys.stdout.flush()
    sys.stdout.write(text.feed(b"", final=True))


def _as_data(session: Session, workload_id: str, member: str | None, pieces: Iterable[bytes]) -> None:
    text = b"".join(pieces).decode("utf-8", "replace")
    session.emit({"workload": workload_id, "member": member, "text": text}, lambda: None)

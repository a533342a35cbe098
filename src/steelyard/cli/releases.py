"""Releases that were not proven: what is kept in quarantine and by what, confirm, fence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import amounts
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError, NotFoundError

Release = Annotated[str, typer.Argument(metavar="RELEASE")]
Text = str | None
_MAX_SHOWN = 20


def list_releases(
    session: Session,
    every: Annotated[bool, typer.Option("--all")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N")] = 50,
) -> None:
    """What is in quarantine, or ever was."""
    rows = session.client.releases(max(limit, 1), closed=None if every else False)
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.workload", "name"),
        ("cli.column.project", "project"),
        ("cli.column.cluster", lambda row: ", ".join(row["clusters"])),
        ("cli.column.state", lambda row: _state(session, row)),
        ("cli.column.held", lambda row: _held(session, row)),
        ("cli.column.since", lambda row: format_time(row["quarantined_at"])),
        ("cli.column.left", lambda row: _left(session, row)),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def show(session: Session, release: Release) -> None:
    """One of them whole."""
    view = session.client.unproven_release(_find(session, release))
    session.emit(view, lambda: _page(session, view))


def confirm(
    session: Session,
    release: Release,
    force: Annotated[bool, typer.Option("--force")] = False,
    reason: Annotated[Text, typer.Option("--reason", metavar="TEXT")] = None,
) -> int:
    """A new probe decides; exit status 1 where it still finds something."""
    if force and not reason:
        raise InvalidError("release-reason-missing", asked="force")
    name = _find(session, release)
    session.client.confirm_release(name, force=force, reason=reason)
    return _answer(session, name)


def fence(
    session: Session,
    release: Release,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT")],
) -> int:
    """Ends what is left; exit status 1 where something can't be ended."""
    name = _find(session, release)
    session.client.fence_release(name, reason)
    return _answer(session, name)


def _find(session: Session, text: str) -> str:
    """By its id, its attempt's, or the workload's id or name: the newest of that workload."""
    if text.startswith(("rl_", "at_")):
        return text
    for row in session.client.releases():
        if text in (row["workload"], row["name"]):
            return str(row["id"])
    raise NotFoundError("not-found", kind="release", id=text[:80])


def _answer(session: Session, name: str) -> int:
    view = session.client.release_answer(name)

    def draw() -> None:
        answer = view["answer"] or {"code": f"release.{view['state']}"}
        session.line(_sentence(session, answer))
        for what, number in sorted((answer.get("done") or {}).items()):
            session.line(f"  {session.word('cleared', what)}: {number}")
        if view["closed_at"] is None:
            _residue(session, view)

    session.emit(view, draw)
    return 0 if view["closed_at"] is not None else 1


def _page(session: Session, view: Mapping[str, Any]) -> None:
    session.say(
        "cli.release-show.one",
        id=view["id"], name=view["name"], number=view["number"], state=_state(session, view),
        at=view["quarantined_at"],
    )  # fmt: skip
    session.say("cli.release-show.held", amounts=_held(session, view))
    for reason in view["reasons"]:
        session.line(f"  - {_sentence(session, reason)}")
    _residue(session, view)
    for part in (view["asked"], view["answer"]):
        if part is not None:
            session.say(
                "cli.release-show.asked",
                by=part["by"] or "control", asked=part["asked"] or "–", at=part["at"],
                reason=part["reason"] or "–",
            )  # fmt: skip
    if view["answer"] is not None:
        session.line("  " + _sentence(session, view["answer"]))


def _residue(session: Session, view: Mapping[str, Any]) -> None:
    for left in view["seen"]["residue"][:_MAX_SHOWN]:
        session.line("  " + session.text("cli.show.residue", what=str(left)))


def _sentence(session: Session, part: Mapping[str, Any]) -> str:
    words = {"check": session.word("probe", part.get("check"))} if part.get("check") else {}
    return one_line(session.text(part["code"], **{**part, **words}))


def _state(session: Session, view: Mapping[str, Any]) -> str:
    shown = session.word("release-state", view["state"])
    return f"{shown} ({session.word('release-state', 'fenced')})" if view["fenced_at"] else shown


def _held(session: Session, view: Mapping[str, Any]) -> str:
    sums: dict[str, int] = {}
    for item in view["held"]:
        sums[item["class"]] = sums.get(item["class"], 0) + item["quantity"]
    return amounts(session, sums)


def _left(session: Session, view: Mapping[str, Any]) -> str:
    left = view["seen"]["residue"]
    if not left:
        return "–"
    more = view["seen"]["left"] - 1
    return f"{left[0]} (+{more})" if more else str(left[0])

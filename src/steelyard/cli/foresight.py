"""Start estimates, a window of the past under another policy, and stored cycles decided again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import amount, fewer
from steelyard.cli.documents import WORKLOAD, placed, read
from steelyard.cli.instants import instant
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError

_MAX_SHOWN = 20
_STEP = 100  # cycles of one request
Since = Annotated[str | None, typer.Option("--since", metavar="TIME")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME")]


# --- estimates -------------------------------------------------------------------------------------------
def estimates(
    session: Session,
    workload: Annotated[str | None, typer.Argument(metavar="WORKLOAD")] = None,
    project: Annotated[str | None, typer.Option("--project", metavar="NAME")] = None,
) -> None:
    """When what waits will start, and how often such estimates held."""
    name = None if workload is None else session.client.find(workload)
    found = session.client.estimates(workload=name, project=project)
    columns: list[Any] = [
        ("cli.column.name", "name"),
        ("cli.column.project", "project"),
        ("cli.column.queue", "queue"),
        ("cli.column.earliest", lambda row: _start(session, found["at"], row["earliest"])),
        ("cli.column.latest", lambda row: _start(session, found["at"], row["latest"])),
        ("cli.column.why", lambda row: None if row["why"] is None else session.word("open-end", row["why"])),
    ]

    def draw() -> None:
        session.table(columns, found["items"])
        coverage = found["coverage"]
        if coverage["starts"]:
            session.say("cli.estimates.coverage", **coverage)
        else:
            session.say("cli.estimates.no-coverage")

    session.emit(found, draw)


def _start(session: Session, now: int, at: int | None) -> str | None:
    if at is None:
        return None
    return session.text("cli.estimates.now") if at <= now else format_time(at)


# --- a window under another policy -----------------------------------------------------------------------
def policy_preview(
    session: Session,
    file: Annotated[list[str], typer.Option("--file", "-f", metavar="FILE")],
    since: Since = None,
    until: Until = None,
) -> int:
    """The recorded window under these documents, beside what was in force."""
    sources = [source for source in read(file) if source.kind != WORKLOAD]
    if not sources:
        raise InvalidError("documents-none", files=", ".join(file)[:200])
    with placed(sources):
        found = session.client.policy_preview(
            [source.document for source in sources],
            since=instant(since, "--since"), until=instant(until, "--until"),
        )  # fmt: skip
    session.emit(found, lambda: _preview(session, found))
    return 0


def _preview(session: Session, found: Mapping[str, Any]) -> None:
    session.say(
        "cli.policy-preview.window", since=found["since"], until=found["until"], cycles=found["cycles"],
        workloads=found["workloads"],
    )  # fmt: skip
    for side in ("old", "new"):
        told = {**found[side], "shrinks": found[side].get("shrinks") or None}
        session.say("cli.policy-preview.side", side=session.text(f"cli.policy-preview.{side}"), **told)
    for kind in ("earlier", "later", "no_longer", "only_new"):
        rows = found[kind]
        if rows["count"]:
            session.line()
            session.say(f"cli.policy-preview.{kind.replace('_', '-')}", count=rows["count"])
            for row in rows["items"][:_MAX_SHOWN]:
                session.say(
                    "cli.policy-preview.moved", name=row["name"], project=row["project"], id=row["id"],
                    old=row["old"], new=row["new"],
                )  # fmt: skip
    _stops(session, "eviction", found["evictions"])
    _stops(session, "shrink", found.get("shrinks") or {"count": 0})
    _refusals(session, found["refusals"])
    _over(session, found["over_quota"])
    session.line()
    session.say("cli.policy-preview.trust", **found["reproduced"])
    for code in found["assumptions"]:
        session.line(f"  - {session.word('assumption', code)}")
    if not found["complete"]:
        session.say("cli.what-if.cut")


def _stops(session: Session, kind: str, rows: Mapping[str, Any]) -> None:
    """`kind`: eviction, or shrink of a gang that goes on."""
    if rows["count"]:
        session.line()
        session.say(f"cli.policy-preview.{kind}s", count=rows["count"])
        for row in rows["items"][:_MAX_SHOWN]:
            session.say(
                f"cli.policy-preview.{kind}", name=row["name"], id=row["id"], at=row["at"], by=row["for"],
                limit=(row.get("limit") or {}).get("node"), **fewer(row),
            )  # fmt: skip


def _refusals(session: Session, rows: Mapping[str, Any]) -> None:
    if rows["count"]:
        session.line()
        session.say("cli.policy-preview.refusals", count=rows["count"])
        for row in rows["items"][:_MAX_SHOWN]:
            session.line(f"  {row['name']} ({row['id']})")
            for reason in row["reasons"][:2]:
                session.line(f"    - {session.reason(reason)}")


def _over(session: Session, rows: list[Any]) -> None:
    if rows:
        session.line()
        session.say("cli.policy-preview.over", count=len(rows))
        for row in rows[:_MAX_SHOWN]:
            shown = {key: amount(session, row["subject"], row[key]) for key in ("used", "limit", "over")}
            session.say("cli.policy-preview.over-one", node=row["node"], subject=row["subject"], **shown)


# --- the past, decided again -----------------------------------------------------------------------------
def replay(
    session: Session,
    cycle: Annotated[str | None, typer.Argument(metavar="[CYCLE]")] = None,
    since: Since = None,
    until: Until = None,
) -> int:
    """Decides one stored cycle again, or all of a window: exit status 1 where one differs."""
    if cycle is not None:
        if since is not None or until is not None:
            raise InvalidError("argument-conflict", first="CYCLE", second="--since")
        return _one(session, cycle)
    if since is None and until is None:
        raise InvalidError("argument-missing", name="CYCLE | --since")
    return _window(session, instant(since, "--since"), instant(until, "--until"))


def _one(session: Session, cycle: str) -> int:
    found = session.client.replay(cycle)

    def draw() -> None:
        told = {True: "cli.replay.same", False: "cli.replay.differs", None: "cli.replay.purged"}
        session.say(told[found["same"]], id=cycle)
        for difference in found["differences"][:_MAX_SHOWN]:
            session.line(f"  - {one_line(difference)}")

    session.emit(found, draw)
    return 1 if found["same"] is False else 0


def _window(session: Session, since: int | None, until: int | None) -> int:
    sums = dict.fromkeys(("checked", "same", "different", "purged"), 0)
    first: dict[str, Any] | None = None
    cursor: str | None = None
    while True:
        found = session.client.replay_window(since, until, cursor=cursor, limit=_STEP)
        until = found["until"]  # of the first question: what is decided meanwhile is not asked about
        for name in sums:
            sums[name] += found[name]
        first, cursor = first or found["first"], found["next_cursor"]
        if cursor is None:
            break
        session.note("cli.replay.progress", done=sums["checked"] + sums["purged"], total=found["total"])
    told = {**sums, **{key: found[key] for key in ("since", "kept_since")}, "until": until, "first": first}

    def draw() -> None:
        session.say("cli.replay.window", **{k: v for k, v in told.items() if k != "first"})
        if found["kept_since"] and (since or 0) < found["kept_since"]:
            session.say("cli.replay.window-purged", at=found["kept_since"])
        if first is not None:
            session.say("cli.replay.first", id=first["id"], count=first["count"])
            for difference in first["differences"][:_MAX_SHOWN]:
                session.line(f"  - {one_line(difference)}")

    session.emit(told, draw)
    return 1 if sums["different"] else 0

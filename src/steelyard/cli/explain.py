"""`steelyard explain`: what would start a workload that waits, then why it does, then who is ahead of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard import locale
from steelyard.cli import page
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.units import format_quantity

Workload = Annotated[str, typer.Argument(metavar="WORKLOAD")]
_NUMBERS = ("limit", "used", "requested", "short_by")


def explain(
    session: Session,
    workload: Workload,
    before: Annotated[str | None, typer.Option("--before", metavar="OTHER")] = None,
) -> None:
    """Why it waits, as the scheduler sees it now; or why it is before or behind another."""
    number = session.client.find(workload)
    if before is not None:
        compared = session.client.compare(number, session.client.find(before))
        session.emit(compared, lambda: _draw_order(session, compared))
        return
    found = session.client.explain(number)
    session.emit(found, lambda: _draw(session, found))


def _draw(session: Session, found: Mapping[str, Any]) -> None:
    session.say("cli.explain.decision", decision=found["decision"])
    if found.get("verdict"):
        session.line(session.verdict(found["verdict"]))
        page.draw_verdict(session, found["verdict"])
    if found.get("scaled") is not None:
        scaled = found["scaled"]
        session.say("cli.explain.scaled", members=scaled["members"], asked=scaled["asked"])
        session.say("cli.explain.joins" if scaled.get("joins") else "cli.explain.joins-not")
        if scaled.get("joins_from") is not None:
            session.say("cli.explain.joins-from", at=scaled["joins_from"])
    _remedies(session, found)
    _reasons(session, found["reasons"])
    _models(session, found.get("models"))
    if found.get("position") is not None:
        session.say("cli.explain.position", position=found["position"])
    for ahead in found.get("ahead") or ():
        _ahead(session, ahead)
    if found.get("reservation") is not None:
        session.say("cli.explain.reservation", at=found["reservation"]["starts_at"])
    if found.get("last_evaluated_at") is not None:
        session.say("cli.explain.looked", at=found["last_evaluated_at"])
    _past(session, found.get("past") or ())
    for eviction in found.get("evictions") or ():
        page.draw_eviction(session, eviction)


def _remedies(session: Session, found: Mapping[str, Any]) -> None:
    remedies = found.get("remedies") or ()
    if remedies:
        session.say("cli.explain.remedies")
    elif found["decision"] == "waits" and found["reasons"] and found.get("policy_version") is not None:
        session.say("cli.explain.no-remedy")
    for number, remedy in enumerate(remedies, 1):
        session.line(f"  {number}. {one_line(locale.remedy_text(remedy, session.lang))}")


def _reasons(session: Session, reasons: list[Mapping[str, Any]]) -> None:
    """Quantities side by side where there are any, then each reason in a sentence."""
    counted = [reason for reason in reasons if reason.get("short_by") is not None]
    if counted:
        columns: list[Any] = [
            ("cli.column.why", lambda row: session.word("why", row["code"])),
            ("cli.column.whose-limit", lambda row: _whose(session, row)),
            ("cli.column.flavor", "flavor"),
            ("cli.column.class", lambda row: session.word("class", row["resource"])),
            ("cli.column.in-all", lambda row: _number(row, "limit")),
            ("cli.column.used", lambda row: _number(row, "used")),
            ("cli.column.requested", lambda row: _number(row, "requested")),
            ("cli.column.missing", lambda row: _number(row, "short_by")),
        ]
        session.table(columns, counted)
    for reason in reasons:
        session.line(f"  - {session.reason(reason)}")


_HOW = {True: "assigned", False: "left", None: "listed"}


def _models(session: Session, models: Mapping[str, Any] | None) -> None:
    """On which models it may run, how fast, and what was free there."""
    if models is None:
        return
    how = "waits" if models["taken"] is None else _HOW[models["assigned"]]
    session.say(f"cli.explain.models-{how}", model=models["taken"])
    columns: list[Any] = [
        ("cli.column.model", "model"),
        ("cli.column.flavor", "flavor"),
        ("cli.column.speed", lambda row: _speed(row["speed"])),
        ("cli.column.basis", lambda row: _basis(session, row)),
        ("cli.column.room", "room"),
        ("cli.column.given", "given"),
    ]
    session.table(columns, models["options"])


def _speed(thousandths: int | None) -> str | None:
    return None if thousandths is None else f"{thousandths // 1000}.{thousandths % 1000:03}"


def _basis(session: Session, row: Mapping[str, Any]) -> str | None:
    if row["speed"] is None:
        return None
    if row["runs"] is None:
        return session.text("cli.explain.declared")
    return session.text("cli.explain.learned", runs=row["runs"])


def _whose(session: Session, reason: Mapping[str, Any]) -> str | None:
    owner = reason.get("owner")
    if owner is None or reason.get("scope") == "flavor":
        return None
    name = str(owner).partition("/")[2] or str(owner)
    return f"{session.word('scope', reason['scope'])} {one_line(name)}"


def _number(reason: Mapping[str, Any], name: str) -> str | None:
    value = reason.get(name)
    return None if value is None else format_quantity(str(reason["resource"]), value)


def _ahead(session: Session, ahead: Mapping[str, Any]) -> None:
    who = ahead.get("name") or ahead.get("id") or session.text("cli.explain.hidden")
    told = session.text("cli.explain.priority", priority=ahead["priority"])
    if ahead.get("by") is not None:
        told = locale.factor_text(ahead["by"], session.lang)
    session.line(f"    {one_line(who)} ({one_line(told)})")


def _past(session: Session, past: Any) -> None:
    if past:
        session.say("cli.explain.past")
    for entry in past:
        session.line("    " + session.text(
            "cli.explain.past-entry", since=format_time(entry["since"]),
            until=None if entry["until"] is None else format_time(entry["until"]),
            why=session.word("why", entry["reason"]), whose=_whose(session, entry), flavor=entry["flavor"],
            looks=entry["looks"],
        ))  # fmt: skip


def _draw_order(session: Session, found: Mapping[str, Any]) -> None:
    names = {each["id"]: each["name"] for each in found["workloads"]}
    mine, other = found["workloads"]
    if found["first"] is None:
        session.say("cli.explain.same", name=mine["name"])
        return
    behind = other if found["first"] == mine["id"] else mine
    session.say("cli.explain.first", first=names[found["first"]], behind=behind["name"])
    for factor in found["factors"]:
        session.line(f"  - {one_line(locale.factor_text(factor, session.lang))}")

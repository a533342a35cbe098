"""Pools: list, show, close, open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.amounts import amounts
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time

Name = Annotated[str, typer.Argument(metavar="POOL")]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT")]
_MOST = 10


def list_pools(session: Session) -> None:
    """Every pool in a line."""
    rows = session.client.pools()
    columns: list[Any] = [
        ("cli.column.pool", lambda row: row["name"] + session.simulated(row)),
        ("cli.column.cluster", "cluster"),
        ("cli.column.purpose", lambda row: session.word("purpose", row["purpose"])),
        ("cli.column.owner", "owner"),
        ("cli.column.on-call", "on_call"),
        ("cli.column.state", lambda row: session.word("pool-state", "open" if row["open"] else "closed")),
        ("cli.column.standing", lambda row: session.word("standing", row["standing"])),
        ("cli.column.flavors", lambda row: ", ".join(_flavor(part) for part in row["flavors"])),
    ]
    session.emit(rows, lambda: session.table(columns, rows))


def show(session: Session, pool: Name) -> None:
    """One pool whole."""
    found = session.client.pool(pool)
    session.emit(found, lambda: _page(session, found))


def close(session: Session, pool: Name, reason: Reason) -> None:
    """Lets nothing new in."""
    found = session.client.close_pool(pool, reason)
    session.emit(found, lambda: session.say("cli.pool-close.done", name=found["name"]))


def open_again(session: Session, pool: Name, reason: Reason) -> None:
    """Ends what shuts it."""
    found = session.client.open_pool(pool, reason)
    session.emit(found, lambda: session.say("cli.pool-open.done", name=found["name"]))


def _flavor(part: Mapping[str, Any]) -> str:
    return f"{part['name']} {part['available']}/{part['devices']}"


def _page(session: Session, found: Mapping[str, Any]) -> None:
    state = session.word("pool-state", "open" if found["open"] else "closed")
    session.say(
        "cli.pool-show.one", name=found["name"], cluster=found["cluster"], state=state,
        purpose=session.word("purpose", found["purpose"]),
        standing=session.word("standing", found["standing"]),
    )  # fmt: skip
    if found["about"]:
        session.line(one_line(found["about"]))
    for closing in found["shut_by"]:
        session.line("  - " + why_shut(session, closing))
    for entry in found["operations"]:
        session.say(
            "cli.pool-show.operations", resource=session.word("class", entry["class"]),
            owner=entry["owner"] or "–", on_call=entry["on_call"] or "–",
        )  # fmt: skip
    _rules(session, found)
    _members(session, found["members"])
    columns: list[Any] = [
        ("cli.column.flavor", "name"),
        ("cli.column.class", lambda row: session.word("class", row["class"])),
        ("cli.column.model", lambda row: row["model"] or ", ".join(row["models"])),
        ("cli.column.devices", "devices"),
        ("cli.column.available", "available"),
        ("cli.column.verified", lambda row: _kinds(session, row["verified_kinds"])),
        ("cli.column.standing", lambda row: session.word("standing", row["standing"])),
        ("cli.column.supported", lambda row: session.word("supported", "yes" if row["supported"] else "no")),
    ]
    session.line()
    session.table(columns, found["flavors"])


def _rules(session: Session, found: Mapping[str, Any]) -> None:
    for part in found["confirmations"]:
        by = ", ".join(session.word("confirmed-by", how) for how in part["confirmed_by"])
        session.say(
            "cli.pool-show.offers", label=part["label"], value=part["value"], by=by or None,
            standing=session.word("standing", part["standing"]),
        )  # fmt: skip
    for entry in found["fit"]:
        for key, value in entry["needs"].items():
            values = value if isinstance(value, str) else ", ".join(value)
            resource = session.word("class", entry["class"])
            session.say("cli.pool-show.needs", resource=resource, label=key, values=values)
    rules = found["admission"]
    for name in ("kinds", "projects", "teams", "environments"):
        if rules[name]:
            values = _kinds(session, rules[name]) if name == "kinds" else ", ".join(rules[name])
            session.say(f"cli.pool-show.{name}", values=values)
    if rules["max_per_request"]:
        session.say("cli.pool-show.most", values=amounts(session, rules["max_per_request"]))
    lending = found["lending"]
    if lending["to"]:
        verified = ", ".join(f"{session.word('kind', v['kind'])}/{v['model']}" for v in lending["verified"])
        session.say("cli.pool-show.lends", pools=", ".join(lending["to"]), verified=verified or "–")
    else:
        session.say("cli.pool-show.lends-nothing")


def _members(session: Session, members: Mapping[str, Any]) -> None:
    if members["equal"] is None:
        session.say("cli.pool-show.members-found", count=len(members["actual"]))
    elif members["equal"]:
        session.say("cli.pool-show.members-equal", count=len(members["actual"]))
    else:
        session.say(
            "cli.pool-show.members-differ",
            missing=_some(members["missing"]), extra=_some(members["extra"]),
        )  # fmt: skip


def _some(names: list[str]) -> str:
    more = f", +{len(names) - _MOST}" if len(names) > _MOST else ""
    return (", ".join(names[:_MOST]) + more) or "–"


def _kinds(session: Session, kinds: list[str]) -> str:
    return ", ".join(session.word("kind", kind) for kind in kinds) or "–"


def why_shut(session: Session, closing: Mapping[str, Any]) -> str:
    """Who or what closed a pool, since when."""
    at = format_time(closing["closed_at"])
    if closing["cause"] == "operator":
        return session.text("cli.pool-show.by", by=closing["closed_by"], reason=closing["reason"], at=at)
    first = closing["findings"][0]
    return session.text(
        "cli.pool-show.drift", what=session.word("drift", first["what"]), where=first["where"],
        declared=first["declared"] or "–", detected=first["detected"] or "–", at=at,
        more=len(closing["findings"]) - 1 or None,
    )  # fmt: skip

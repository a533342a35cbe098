"""Support documents, extensions and observation sources: what is there beside devices, and what it proves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli import table
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session

_KINDS = ("SupportDocument", "Extension", "ObservationSource")
Json = dict[str, Any]


def list_documents(session: Session) -> None:
    """All three in one table: none of them proves anything."""
    rows = [_row(found) for kind in _KINDS for found in session.client.objects(kind)]
    columns: list[Any] = [
        ("cli.column.object", lambda row: session.word("noun", row["kind"])),
        ("cli.column.name", "name"),
        ("cli.column.issuer", "issuer"),
        ("cli.column.date", "date"),
        ("cli.column.scope", "scope"),
        ("cli.column.link", lambda row: session.word("link", row["link_state"])),
        ("cli.column.proves", lambda row: session.word("proves", row["proves"])),
    ]

    def draw() -> None:
        session.table(columns, rows)
        session.say("cli.document-list.nothing")

    session.emit(rows, draw)


def show(session: Session, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """One of them, by its name."""
    every = [found for kind in _KINDS for found in session.client.objects(kind)]
    found = next((one for one in every if one["metadata"]["name"] == name), None)
    if found is None:
        session.client.object(_KINDS[0], name)  # says that there is none
        return
    document = {**found, "proves": "nothing"}

    def draw() -> None:
        session.line(one_line(f"{session.word('noun', document['kind'])} {name}"))
        session.line(table.load("steelyard.cli.tables:to_yaml")(document["spec"]).rstrip())
        session.say("cli.document-list.nothing")

    session.emit(document, draw)


def _row(found: Mapping[str, Any]) -> Json:
    spec: Json = found["spec"]
    scope = spec.get("scope") or {}
    words = [scope.get("class") or spec.get("type"), scope.get("family") or spec.get("family")]
    words += [*(scope.get("models") or ()), spec.get("version"), spec.get("cluster")]
    link = (spec.get("linkCheck") or {}).get("state") if found["kind"] == _KINDS[0] else None
    return {
        "kind": found["kind"],
        "name": found["metadata"]["name"],
        "issuer": spec.get("issuer") or spec.get("maintainedBy") or spec.get("owner"),
        "date": spec.get("date"),
        "scope": " ".join(word for word in words if word) or None,
        "link": spec.get("link"),
        "link_state": link,
        "proves": "nothing",
    }


def of_device(session: Session, support: Mapping[str, Any] | None) -> None:
    """What is verified of a device, and what is only claimed."""
    if support is None:
        return
    operations = support["operations"]
    session.say(
        "cli.device.support", standing=session.word("standing", support["standing"]),
        owner=operations["owner"] or "–", on_call=operations["on_call"] or "–",
    )  # fmt: skip
    for record in support["verifications"]:
        session.say(
            "cli.device.verification", id=record["id"], kind=session.word("kind", record["kind"]),
            standing=session.word("standing", record["standing"]),
        )  # fmt: skip
    for part in ("documents", "extensions", "sources"):
        if support[part]:
            session.say(f"cli.device.{part}", names=", ".join(row["name"] for row in support[part]))

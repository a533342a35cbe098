"""Declared objects: apply, diff, export, get, delete."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from steelyard.cli.documents import KINDS, WORKLOAD, Source, placed, read
from steelyard.cli.safe import one_line, to_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError

_SIGNS = {"created": "+", "changed": "~", "unchanged": "=", "retired": "-"}
_WOULD = {"created": "create", "changed": "change"}
_APPLIED = ("name", "labels")  # of the metadata; the rest is the server's
_MOST_OF_A_VALUE = 72  # characters; -o json has all
Files = Annotated[list[str], typer.Option("--file", "-f", metavar="FILE")]
Kind = Annotated[str, typer.Argument(metavar="KIND")]


def apply(
    session: Session,
    file: Files,
    dry_run: Annotated[bool, typer.Option("--dry-run")] = False,
    reason: Annotated[str | None, typer.Option("--reason", metavar="TEXT")] = None,
) -> None:
    """Declares the objects of files, all or none."""
    sources = _declared(session, file)
    documents = [source.document for source in sources]
    with placed(sources):
        results = session.client.apply(documents, dry_run=dry_run, reason=reason)
    session.emit({"results": results}, lambda: _draw(session, results, dry_run))


def diff(session: Session, file: Files) -> int:
    """What `apply` would change: exit status 1 where there is a difference."""
    sources = _declared(session, file)
    with placed(sources):
        results = session.client.diff([source.document for source in sources])
    session.emit({"results": results}, lambda: _draw(session, results, True))
    return 1 if any(result["action"] != "unchanged" for result in results) else 0


def export(session: Session) -> None:
    """Every declared document, so that applying them changes nothing."""
    documents = session.client.export()
    session.emit(documents, lambda: _list(session, documents), default="yaml")


def get(
    session: Session,
    kind: Kind,
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    history: Annotated[bool, typer.Option("--history")] = False,
) -> None:
    """Objects of a kind, or one of them."""
    wanted = known_kind(kind)
    if name is None:
        found = session.client.objects(wanted)
        session.emit(found, lambda: _list(session, found))
    elif history:
        versions = session.client.object_history(wanted, name)
        session.emit(versions, lambda: _list(session, versions))
    else:
        document = session.client.object(wanted, name)
        if session.output is None:
            document["metadata"] = {k: v for k, v in document["metadata"].items() if k in _APPLIED}
        session.emit(document, lambda: _list(session, [document]), default="yaml")


def delete(session: Session, kind: Kind, name: Annotated[str, typer.Argument(metavar="NAME")]) -> None:
    """Retires an object that nothing uses."""
    done = session.client.retire(known_kind(kind), name)
    session.emit(done, lambda: session.say("cli.delete.done", kind=known_kind(kind), name=name))


def known_kind(text: str) -> str:
    """The kind by its name, also in small letters and in the plural. Raises InvalidError."""
    plain = text.lower().replace("-", "")
    for kind in KINDS:
        name = kind.lower()
        if plain in (name, f"{name}s", f"{name}es", f"{name[:-1]}ies"):
            return kind
    raise InvalidError("argument-invalid", name=text[:60], expected="|".join(KINDS))


def _declared(session: Session, files: list[str]) -> list[Source]:
    """The documents to declare. Workloads are not: those of a folder are left out, which is said.

    Raises InvalidError for a workload in a file that was named itself, and where nothing is left.
    """
    found = []
    for source in read(files):
        if source.kind != WORKLOAD:
            found.append(source)
        elif source.listed:
            session.note("cli.apply.skipped", file=source.file, name=source.name or str(source.number))
        else:
            raise InvalidError("document-is-workload", file=source.file, number=source.number)
    if not found:
        raise InvalidError("documents-none", files=", ".join(files)[:200])
    return found


def _draw(session: Session, results: list[Any], dry: bool) -> None:
    for result in results:
        done = result["action"]
        action = session.word("action", _WOULD.get(done, done) if dry else done)
        session.line(f"{_SIGNS.get(result['action'], '?')} {result['kind']}/{result['name']}: {action}")
        for change in result.get("diff") or ():
            session.line(f"    {change['path']}: {_value(change['before'])} → {_value(change['after'])}")
        for warning in result.get("warnings") or ():
            shown = session.text(warning["code"], **warning["params"])
            session.note("cli.warning", sentence=shown)
    if dry:
        session.note("cli.apply.dry")


def _value(value: Any) -> str:
    """A value on one line, cut where it is long."""
    if value is None:
        return "–"
    shown = one_line(value if isinstance(value, str) else to_line(value)).strip()
    return shown if len(shown) <= _MOST_OF_A_VALUE else f"{shown[: _MOST_OF_A_VALUE - 1]}…"


def _list(session: Session, documents: list[Any]) -> None:
    def meta(key: str) -> Any:
        return lambda row: row["metadata"].get(key)

    def since(row: Mapping[str, Any]) -> str:
        return format_time(row["metadata"].get("valid_from"))

    def until(row: Mapping[str, Any]) -> str:
        return format_time(row["metadata"].get("valid_to"))

    columns: list[Any] = [
        ("cli.column.kind", "kind"),
        ("cli.column.name", meta("name")),
        ("cli.column.version", meta("version")),
        ("cli.column.since", since),
        ("cli.column.until", until),
    ]
    session.table(columns, documents)

"""The evidence log: checks, checkpoints, entries, bundles."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.instants import instant
from steelyard.cli.safe import one_line
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError

_MAX_FINDINGS = 10
_MAX_FILES = 100_000
When = Annotated[str | None, typer.Option("--from", metavar="TIME")]
Until = Annotated[str | None, typer.Option("--to", metavar="TIME")]


def check(session: Session) -> int:
    """Runs every check: exit status 1 where one does not hold."""
    found = session.client.audit_checks()

    def draw() -> None:
        for row in found["checks"]:
            mark = "✓" if row["ok"] else "✗"
            counted = session.text("cli.audit-check.checked", count=row.get("checked"))
            session.line(f"{mark} {row['id']}: {session.word('check', row['id'])} ({counted})")
            for finding in (row.get("findings") or [])[:_MAX_FINDINGS]:
                session.line(f"    {one_line(finding)}")
        session.say("cli.audit-check.ok" if found["ok"] else "cli.audit-check.not-ok")

    session.emit(found, draw)
    return 0 if found["ok"] else 1


def checkpoint(session: Session) -> None:
    """The newest signed checkpoint."""
    found = session.client.audit_checkpoint()

    def draw() -> None:
        session.line(str(found["note"]).rstrip("\n"))
        session.line()
        session.say("cli.audit-checkpoint.code", code=found["short_code"])
        session.say("cli.audit-checkpoint.key", fingerprint=found["key"]["fingerprint"])

    session.emit(found, draw)


def leaves(
    session: Session,
    stream: Annotated[str | None, typer.Option("--stream", metavar="STREAM")] = None,
    after: Annotated[int | None, typer.Option("--after", metavar="N")] = None,
    limit: Annotated[int, typer.Option("--limit", metavar="N")] = 50,
) -> None:
    """Entries of a stream."""
    found = session.client.audit_leaves(stream, after=after, most=limit)
    columns: list[Any] = [
        ("cli.column.seq", "seq"),
        ("cli.column.at", lambda row: format_time(row.get("ts"))),
        ("cli.column.actor", lambda row: _nested(row, "actor")),
        ("cli.column.action", "action"),
        ("cli.column.object", lambda row: _nested(row, "object")),
        ("cli.column.outcome", "outcome"),
        ("cli.column.why", "reason_code"),
    ]
    session.emit(found, lambda: session.table(columns, found["items"]))


def export(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER")],
    start: When = None,
    end: Until = None,
    tar: Annotated[bool, typer.Option("--tar")] = False,
) -> None:
    """An evidence bundle into a new folder, or as a tar file."""
    if folder.exists() and (tar or not folder.is_dir() or any(folder.iterdir())):
        raise InvalidError("target-exists", path=str(folder))
    data = session.client.audit_bundle(instant(start, "--from"), instant(end, "--to"))
    try:
        if tar:
            folder.write_bytes(data)
            count = 1
        else:
            count = _unpack(data, folder)
    except OSError as error:
        raise InvalidError("target-not-writable", path=str(folder), reason=str(error)[:200]) from None
    shown = {"path": str(folder), "files": count}
    session.emit(shown, lambda: session.say("cli.audit-export.done", path=str(folder), count=count))


def _unpack(data: bytes, folder: Path) -> int:
    """Regular files below the folder and nothing else. Raises InvalidError `bundle-unsafe`."""
    count = 0
    try:
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
            for member in archive:
                source = archive.extractfile(member) if member.isfile() else None
                parts = Path(member.name).parts
                if member.isdir() and ".." not in parts:
                    continue
                if source is None or member.name.startswith("/") or ".." in parts or count >= _MAX_FILES:
                    raise InvalidError("bundle-unsafe", path=member.name[:200])
                target = folder / member.name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(source.read())
                count += 1
    except tarfile.TarError as error:
        raise InvalidError("bundle-unsafe", path=str(error)[:200]) from None
    return count


def _nested(row: Any, key: str) -> str | None:
    value = row.get(key)
    if isinstance(value, dict):
        parts = (value.get("kind"), value.get("name") or value.get("id"))
        return " ".join(dict.fromkeys(str(part) for part in parts if part))
    return None if value is None else str(value)

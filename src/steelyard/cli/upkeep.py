"""Commands of whoever looks after an installation: backup, restore, upgrade."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.operators import Folder, call, default_folder
from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError

File = Annotated[Path, typer.Argument(metavar="FILE")]
Database = Annotated[str | None, typer.Option("--database", metavar="URL")]
Key = Annotated[str | None, typer.Option("--key", metavar="FINGERPRINT")]


def backup(
    session: Session,
    file: File,
    data: Folder = None,
    database: Database = None,
    with_key: Annotated[bool, typer.Option("--with-log-key")] = False,
) -> int:
    """A copy of a running installation."""
    return call("backup", file, data or default_folder(session), database, with_key, session.lang)


def backup_verify(session: Session, file: File, key: Key = None) -> int:
    """A copy checked, offline."""
    return call("backup verify", file, key, session.lang)


def restore(
    session: Session,
    file: File,
    data: Folder = None,
    database: Database = None,
    key: Key = None,
    end_tokens: Annotated[bool, typer.Option("--end-tokens")] = False,
) -> int:
    """A copy put into something empty."""
    folder = data or _unused(default_folder(session))
    return call("restore", file, folder, database, key, end_tokens, session.lang)


def upgrade(
    session: Session,
    data: Folder = None,
    database: Database = None,
    check: Annotated[bool, typer.Option("--check")] = False,
) -> int:
    """The database brought to this program's schema."""
    return call("upgrade", data or default_folder(session), database, check, session.lang)


def _unused(folder: Path) -> Path:
    """A folder that nobody named: taken only where nothing is in it, since it may be somebody's server.

    Raises InvalidError `restore-folder-not-given`.
    """
    try:
        used = any(folder.iterdir())
    except OSError:
        used = folder.exists()
    if used:
        raise InvalidError("restore-folder-not-given", path=str(folder))
    return folder

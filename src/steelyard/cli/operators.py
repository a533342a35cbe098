"""Commands of whoever operates a server. What they start is named in a table and loaded when called."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli import table
from steelyard.cli.session import Session
from steelyard.model.errors import InvalidError

DEFAULT_PORT = 7580
LOG_FORMATS, LOG_LEVELS = ("text", "json"), ("debug", "info", "warning", "error")

#: What a command starts; nothing of it is imported before.
TARGETS = {
    "up": "steelyard.bootstrap:up",
    "serve": "steelyard.bootstrap:serve",
    "demo": "steelyard.demo.story:main",
    "poc run": "steelyard.poc.command:main",
    "reset-password": "steelyard.bootstrap:reset_user_password",
    "audit rotate-key": "steelyard.upkeep:rotate_key",
    "audit verify": "steelyard.evidence.verify:main",
    "backup": "steelyard.upkeep:backup",
    "backup verify": "steelyard.upkeep:verify_backup",
    "restore": "steelyard.upkeep:restore_backup",
    "upgrade": "steelyard.upkeep:upgrade",
}

Folder = Annotated[Path | None, typer.Option("--data", metavar="FOLDER")]
Host = Annotated[str, typer.Option("--host", metavar="ADDRESS")]
LogFormat = Annotated[str, typer.Option("--log-format", metavar="text|json")]
LogLevel = Annotated[str, typer.Option("--log-level", metavar="debug|info|warning|error")]
Port = Annotated[int, typer.Option("--port", metavar="PORT")]


def up(
    session: Session,
    data: Folder = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> int:
    """The embedded server."""
    log = log_choice(log_format, log_level)
    return call("up", data or default_folder(session), host, port, session.lang, *log)


def serve(
    session: Session,
    database: Annotated[str, typer.Option("--database", metavar="URL")],
    data: Folder = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    log_format: LogFormat = "text",
    log_level: LogLevel = "info",
) -> int:
    """One of several servers on a shared database."""
    log = log_choice(log_format, log_level)
    return call("serve", database, data or default_folder(session), host, port, *log)


def demo(
    session: Session,
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER")] = Path("demo-out"),
    keep: Annotated[bool, typer.Option("--keep")] = False,
) -> int:
    """The main job."""
    return call("demo", out, keep, session.lang)


def poc_run(
    session: Session,
    scenario: Annotated[str, typer.Argument(metavar="SCENARIO")],
    plan: Annotated[Path, typer.Option("--plan", metavar="FILE")],
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER")],
) -> int:
    """A scenario of the trial kit, against the session's server."""

    def connect() -> Any:
        return table.load("steelyard.cli.connection:connect")(session)

    as_data = session.output == "json"
    return call("poc run", session.client, connect, scenario, plan, out, session.lang, as_data)


def reset_password(
    session: Session, user: Annotated[str, typer.Argument(metavar="USER")], data: Folder = None
) -> int:
    """A one-time password, for whoever has the data folder."""
    return call("reset-password", user, data or default_folder(session), session.lang)


def audit_rotate_key(
    session: Session,
    data: Folder = None,
    database: Annotated[str | None, typer.Option("--database", metavar="URL")] = None,
    lost: Annotated[bool, typer.Option("--lost")] = False,
) -> int:
    """A new key for the log."""
    return call("audit rotate-key", data or default_folder(session), database, lost, session.lang)


def audit_verify(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="DIR")],
    key: Annotated[list[str] | None, typer.Option("--key", metavar="FINGERPRINT")] = None,
    anchor: Annotated[list[str] | None, typer.Option("--anchor", metavar="CODE")] = None,
) -> int:
    """The verifier, as it lies in every bundle."""
    arguments = [str(folder), "--lang", session.lang]
    for name, values in (("--key", key), ("--anchor", anchor)):
        for value in values or ():
            arguments += [name, value]
    return call("audit verify", arguments + (["--json"] if session.output == "json" else []))


def log_choice(form: str, level: str) -> tuple[str, str]:
    """Both as given. Raises InvalidError `argument-invalid` for what there is not."""
    for name, given, known in (("--log-format", form, LOG_FORMATS), ("--log-level", level, LOG_LEVELS)):
        if given not in known:
            raise InvalidError("argument-invalid", name=name, given=given[:60], expected="|".join(known))
    return form, level


def default_folder(session: Session) -> Path:
    """STEELYARD_DATA, else `steelyard` in the user's data folder."""
    if session.environ.get("STEELYARD_DATA"):
        return Path(session.environ["STEELYARD_DATA"])
    base = session.environ.get("XDG_DATA_HOME")
    home = Path(session.environ.get("HOME") or os.path.expanduser("~"))
    return (Path(base) if base else home / ".local" / "share") / "steelyard"


def call(name: str, *arguments: Any) -> int:
    """Start what the table names for a command; its exit status."""
    gc.disable()  # what is loaded stays: looking through it again took a quarter of a server's start
    try:
        target = table.load(TARGETS[name])
    finally:
        gc.enable()
    done = target(*arguments)
    return done if isinstance(done, int) else 0

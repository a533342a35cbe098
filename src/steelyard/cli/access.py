"""Who we are: sessions, users, tokens."""

from __future__ import annotations

import getpass
import os
import secrets
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from steelyard.cli.config import config_path, save_settings
from steelyard.cli.session import Session
from steelyard.locale.rendering import format_time
from steelyard.model.errors import InvalidError, SteelyardError

_MAX_PASSWORD = 4096
#: What is wrong with a new password, so that another one may be taken.
_ABOUT_PASSWORD = frozenset({"password-too-short", "password-too-long", "password-unchanged"})
Name = Annotated[str, typer.Argument(metavar="NAME")]
PasswordFile = Annotated[Path | None, typer.Option("--password-file", metavar="FILE")]


def login(
    session: Session,
    user: Annotated[str | None, typer.Argument(metavar="USER")] = None,
    password_file: PasswordFile = None,
    new_password_file: Annotated[Path | None, typer.Option("--new-password-file", metavar="FILE")] = None,
) -> None:
    """Opens a session and keeps its token for this address. A one-time password is changed at once."""
    name = user or _asked(session, "cli.login.ask-user")
    password = _password(session, password_file, "cli.login.ask-password")
    opened = session.client.login(name, password)
    path = config_path(session.environ)
    save_settings(path, {"url": session.client.url, "token": opened["token"]})
    shown = {key: value for key, value in opened.items() if key != "token"}

    def draw() -> None:
        session.say(
            "cli.login.done", user=name, url=session.client.url, until=format_time(opened.get("expires_at"))
        )
        session.say("cli.login.kept", path=str(path))

    session.emit(shown, draw)
    me = session.client.me()
    if not me.get("must_change_password"):
        return
    if new_password_file is not None:
        session.client.set_password(name, _kept_password(new_password_file), password)
        session.note("cli.login.changed-in-file", path=str(new_password_file))
    elif sys.stdin.isatty():
        _choose_password(session, me, password)
    else:
        session.note("cli.login.must-change")


def logout(session: Session) -> None:
    """Ends the session and forgets its token."""
    session.client.logout()
    save_settings(config_path(session.environ), {"token": None})
    session.emit({"url": session.client.url}, lambda: session.say("cli.logout.done", url=session.client.url))


def whoami(session: Session) -> None:
    """The own name and bindings."""
    me = session.client.me()

    def draw() -> None:
        session.line(str(me["name"]))
        for binding in me["bindings"]:
            where = binding["project"] or session.text("cli.whoami.everywhere")
            session.line(f"  {session.word('role', binding['role'])}: {where}")

    session.emit(me, draw)


def users_list(session: Session) -> None:
    """All users that may be seen."""
    users = session.client.users()
    columns: list[Any] = [
        ("cli.column.name", "name"),
        ("cli.column.display-name", "display_name"),
        ("cli.column.disabled", lambda row: session.word("yes", "true") if row.get("disabled") else ""),
        ("cli.column.created", lambda row: format_time(row.get("created_at"))),
        ("cli.column.id", "id"),
    ]
    session.emit(users, lambda: session.table(columns, users))


def users_create(
    session: Session,
    name: Name,
    display_name: Annotated[str | None, typer.Option("--display-name", metavar="TEXT")] = None,
) -> None:
    """A user with a one-time password."""
    made = session.client.create_user(name, display_name)
    session.emit(
        made, lambda: session.say("cli.users-create.done", name=made["name"], password=made.get("password"))
    )


def users_password(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="NAME")] = None,
    password_file: PasswordFile = None,
    old_password_file: Annotated[Path | None, typer.Option("--old-password-file", metavar="FILE")] = None,
) -> None:
    """Sets a password; the own one needs the old."""
    me = str(session.client.me()["name"])
    whose = name or me
    old = None
    if whose == me:
        old = _password(session, old_password_file, "cli.users-password.ask-old")
    new = _password(session, password_file, "cli.users-password.ask-new")
    if password_file is None and sys.stdin.isatty() and new != getpass.getpass(
        session.text("cli.users-password.ask-again")
    ):
        raise InvalidError("passwords-differ")
    session.client.set_password(whose, new, old)
    session.emit({"name": whose}, lambda: session.say("cli.users-password.done", name=whose))


def users_disable(session: Session, name: Name) -> None:
    """Ends all that a user could sign in with."""
    done = session.client.disable_user(name)
    session.emit(done, lambda: session.say("cli.users-disable.done", name=name))


def tokens_list(session: Session) -> None:
    """Tokens in force."""
    tokens = session.client.tokens()
    columns: list[Any] = [
        ("cli.column.id", "id"),
        ("cli.column.name", "name"),
        ("cli.column.user", "user"),
        ("cli.column.created", lambda row: format_time(row.get("created_at"))),
        ("cli.column.expires", lambda row: format_time(row.get("expires_at"))),
    ]
    session.emit(tokens, lambda: session.table(columns, tokens))


def tokens_create(
    session: Session,
    name: Name,
    user: Annotated[str | None, typer.Option("--user", metavar="USER")] = None,
    expires_in: Annotated[str | None, typer.Option("--expires-in", metavar="DURATION")] = None,
) -> None:
    """A token for a program, shown once."""
    made = session.client.create_token(name, user, expires_in)

    def draw() -> None:
        session.note("cli.tokens-create.once")
        session.line(str(made["token"]))

    session.emit(made, draw)


def tokens_revoke(session: Session, token: Annotated[str, typer.Argument(metavar="TOKEN-ID")]) -> None:
    """Ends a token."""
    session.client.revoke_token(token)
    session.emit({"id": token}, lambda: session.say("cli.tokens-revoke.done", id=token))


def _choose_password(session: Session, me: dict[str, Any], old: str) -> None:
    """Asks for a password of one's own, twice, until it is taken. Raises what is not about the password."""
    session.note("cli.login.choose", **me.get("password_length", {}))
    while True:
        new = getpass.getpass(session.text("cli.users-password.ask-new"))
        if new != getpass.getpass(session.text("cli.users-password.ask-again")):
            session.note("error.passwords-differ")
            continue
        try:
            session.client.set_password(str(me["name"]), new, old)
        except SteelyardError as error:
            if error.code not in _ABOUT_PASSWORD:
                raise
            session.note(f"error.{error.code}", **error.params)
            continue
        session.note("cli.users-password.done", name=me["name"])
        return


def _kept_password(path: Path) -> str:
    """The file's first line. Where there is no such file it is made, readable by its owner only, with a
    random password: 144 bits. Raises InvalidError `file-unreadable`."""
    made = secrets.token_urlsafe(18)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return _first_line(path)
    except OSError as error:
        raise InvalidError("file-unreadable", path=str(path), reason=str(error)[:200]) from None
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(f"{made}\n")
    return made


def _asked(session: Session, code: str) -> str:
    if not sys.stdin.isatty():
        raise InvalidError("argument-missing", name="USER")
    sys.stderr.write(session.text(code))
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _password(session: Session, path: Path | None, code: str) -> str:
    """From a file, from a terminal without showing it, or the next line of standard input.

    Raises InvalidError `password-missing` where that is empty.
    """
    if path is not None:
        return _first_line(path)
    if sys.stdin.isatty():
        return getpass.getpass(session.text(code))
    given = sys.stdin.readline(_MAX_PASSWORD).rstrip("\r\n")
    if not given:
        raise InvalidError("password-missing")
    return given


def _first_line(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_MAX_PASSWORD).splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError("file-unreadable", path=str(path), reason=str(error)[:200]) from None
    if not lines or not lines[0]:
        raise InvalidError("password-missing", path=str(path))
    return lines[0]

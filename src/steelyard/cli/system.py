"""The server itself: is it in order, and which version is it."""

from __future__ import annotations

from steelyard import __version__, locale
from steelyard.cli.session import Session

_MARKS = {True: "✓", False: "✗", None: "?"}


def doctor(session: Session) -> int:
    """Every check of the server: exit status 1 where one does not hold."""
    found = session.client.doctor()
    checks = found["checks"]

    def draw() -> None:
        for check in checks:
            code = f"doctor.{check['code']}"
            known = locale.has(code)
            shown = session.text(code, **check["params"]) if known else check.get("text") or check["code"]
            session.line(f"{_MARKS[check['ok']]} {check['id']}: {shown}")

    session.emit(found, draw)
    return 1 if any(check["ok"] is False for check in checks) else 0


def version(session: Session) -> None:
    """This program's version and the server's."""
    server = session.client.version()

    def draw() -> None:
        session.say("cli.version.own", version=__version__)
        session.say("cli.version.server", version=server["version"], url=session.client.url)
        session.say("cli.version.install", id=server["install_id"])

    session.emit({"client": __version__, "server": server}, draw)

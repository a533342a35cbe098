"""Running a command beside a workload's member, and attaching to its own program."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from typing import Annotated

import typer

from steelyard.cli.failure import OK
from steelyard.cli.logs import logs
from steelyard.cli.session import Session
from steelyard.cli.terminal import Input, raw, window
from steelyard.client.errors import ApiError, NotReachableError
from steelyard.client.execution import Execution
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.model.execution import ENDED, NOT_STARTED, Channel

_TERM = "xterm"
LEAVE = b"\x1d"  # Ctrl-], as of telnet
#: What has no terminal that one could attach to has a log.
_WITHOUT = {"no-terminal", "member-not-running", "workload-not-running"}


def execute(
    session: Session,
    arguments: Annotated[list[str] | None, typer.Argument(metavar="WORKLOAD -- COMMAND...")] = None,
    member: Annotated[str | None, typer.Option("--member", metavar="ROLE/INDEX")] = None,
    stdin: Annotated[bool, typer.Option("--stdin", "-i")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t")] = False,
) -> int:
    """A command in a member's surroundings; exits as the command does."""
    words = list(arguments or ())
    if len(words) < 2:
        raise InvalidError("argument-missing", name="COMMAND" if words else "WORKLOAD")
    workload = session.client.find(words[0])
    running = session.client.execute(
        workload, words[1:], member,
        terminal=window() if tty else None, term=session.environ.get("TERM") or _TERM,
    )  # fmt: skip
    with running:
        return carry(session, running, reads=stdin, terminal=tty)


def attach(
    session: Session,
    workload: Annotated[str, typer.Argument(metavar="WORKLOAD")],
    member: Annotated[str | None, typer.Option("--member", metavar="ROLE/INDEX")] = None,
) -> int:
    """A member's own terminal, until Ctrl-] or its end; of one that has none the log as it grows."""
    number = session.client.find(workload)
    try:
        running = session.client.attach(number, member)
    except ApiError as error:
        if error.code not in _WITHOUT:
            raise
        logs(session, number, follow=True, member=member)
        return OK
    with running:
        running.resize(window())
        with raw(sys.stdin.fileno()), Input(running, reads=True, terminal=True, leave=LEAVE) as keys:
            if sys.stdin.isatty():
                session.note("cli.attach.leave")
            _show(running, keys)
    if running.status is not None and not keys.left:
        session.note("cli.attach.ended")
    return OK


def _show(running: Execution, keys: Input) -> None:
    try:
        for channel, data in running.pieces():
            out = sys.stdout if channel == Channel.STDOUT else sys.stderr
            out.buffer.write(data)
            out.flush()
    except NotReachableError:
        if not keys.left:
            raise


def carry(session: Session, running: Execution, *, reads: bool, terminal: bool) -> int:
    """Everything that is said in both directions; the exit status of the command."""
    keyboard = raw(sys.stdin.fileno()) if terminal and reads else nullcontext()
    with keyboard, Input(running, reads=reads, terminal=terminal) as keys:
        _show(running, keys)
    status = running.status or {}
    if status.get("signal") is not None and status.get("reason") == ENDED:
        return 128 + int(status["signal"])
    if status.get("reason") == NOT_STARTED:
        raise UnavailableError("execution-not-started", text=str(status.get("text") or ""))
    if status.get("reason") != ENDED or status.get("code") is None:
        raise UnavailableError("execution-ended", reason=str(status.get("reason")))
    return int(status["code"])

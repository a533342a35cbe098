"""A live view: what the devices do, what waits, what runs."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import Annotated

import typer

from steelyard.cli import failure
from steelyard.cli.screen import KEY, WOKEN, Screen, size
from steelyard.cli.session import Session
from steelyard.cli.top_page import Page, Reading, draw
from steelyard.model.errors import SteelyardError

#: Workloads that are read at most: one page of the list.
MOST = 200
_WIDTH = 100  # where there is no window
_LEAVE = (b"q", b"Q", b"\x03", b"\x04")
_GIVE_UP = (401, 403)  # whoever may look no more is told, and not left with an old page


def top(
    session: Session,
    once: Annotated[bool, typer.Option("--once")] = False,
    interval: Annotated[int, typer.Option("--interval", metavar="SECONDS", min=1, max=3600)] = 2,
) -> int:
    """Devices, queues and running workloads; drawn again on a terminal until somebody has seen enough."""
    first = read(session)  # what is wrong from the beginning is told like everywhere
    terminal = sys.stdout.isatty()
    if once or not terminal or session.output in ("json", "yaml"):
        width = size()[0] if terminal else _WIDTH
        data = {"summary": first.summary, "queues": first.queues, "workloads": first.workloads}
        session.emit(data, lambda: _print(session, first, Page(width)))
        return failure.OK
    try:
        _live(session, first, interval)
    except KeyboardInterrupt:  # the usual way out
        return failure.OK
    return failure.OK


def read(session: Session) -> Reading:
    """One reading, of what every user may ask."""
    client = session.client
    found = client.workloads(MOST + 1, phase="running")
    return Reading(client.inventory_summary(), client.queues(), found[:MOST], len(found) > MOST)


def _print(session: Session, reading: Reading, page: Page) -> None:
    for line in draw(session, reading, page):
        session.line(line)


@dataclass(slots=True)
class _Latest:
    """What the reader thread found last; `error` None while the server answers."""

    reading: Reading
    error: SteelyardError | None = None
    asked: threading.Event = field(default_factory=threading.Event)


def _live(session: Session, first: Reading, interval: int) -> None:
    latest = _Latest(first)
    colour = session.environ.get("NO_COLOR") is None and session.environ.get("TERM") != "dumb"
    with Screen() as screen:
        # A server that hangs must not hold up a key.
        threading.Thread(target=_follow, args=(session, latest, screen), name="top", daemon=True).start()
        due = time.monotonic() + interval
        while True:
            width, height = size()
            notice = _notice(session, latest.error) if latest.error is not None else None
            screen.draw(draw(session, latest.reading, Page(width, height, colour, notice)))
            event = screen.wait(due - time.monotonic())
            if event is not None and event[0] == KEY and any(key in event[1] for key in _LEAVE):
                return
            if event is not None and event[0] == WOKEN:
                due = time.monotonic() + interval
                if getattr(latest.error, "status", None) in _GIVE_UP and latest.error is not None:
                    raise latest.error
            elif event is None or (event[0] == KEY and b" " in event[1]):
                latest.asked.set()
                due = time.monotonic() + interval


def _follow(session: Session, latest: _Latest, screen: Screen) -> None:
    while True:
        latest.asked.wait()
        latest.asked.clear()
        try:
            latest.reading, latest.error = read(session), None
        except SteelyardError as error:
            latest.error = error
        except RuntimeError:  # the connection was closed: the program ends
            return
        screen.wake()


def _notice(session: Session, error: SteelyardError) -> str:
    """One line on a server that does not answer; the page below it is the last one."""
    return session.text("cli.top.lost", code=error.code, url=session.client.url)

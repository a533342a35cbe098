"""This side's terminal and input while a command runs beside a member.

The terminal is put into raw mode and given back as it was, however this program ends, short of KILL. Input is
carried by a thread of its own, which a change of the window's size wakes through a pipe: a signal handler
itself does nothing that could wait.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NoReturn

from steelyard.client.execution import Execution
from steelyard.model.execution import TerminalSize

_CHUNK = 32 * 1024
_END_OF_INPUT = b"\x04"  # what ends the input of a terminal
_ENDING = (signal.SIGTERM, signal.SIGHUP)


def window() -> TerminalSize:
    """The size of this side's window; the usual one where there is none."""
    for stream in (sys.stdout, sys.stdin, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            size = os.get_terminal_size(stream.fileno())
            if size.lines > 0 and size.columns > 0:
                return TerminalSize(size.lines, size.columns)
    return TerminalSize()


@contextmanager
def raw(fd: int) -> Iterator[None]:
    """The terminal passes every key on, also Ctrl-C, until the end of the block."""
    if not os.isatty(fd):
        yield
        return
    before = termios.tcgetattr(fd)
    handlers = {number: signal.signal(number, _leave) for number in _ENDING}
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


class Input:
    """Carries standard input, and the window's size where there is a terminal, to a command."""

    def __init__(
        self, running: Execution, *, reads: bool, terminal: bool, leave: bytes | None = None
    ) -> None:
        """`leave`: the key with which one lets go; without it every key is passed on."""
        self._leave = leave
        self.left = False
        self._running = running
        self._reads = reads
        self._terminal = terminal
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_write, False)
        self._before: object = None
        self._thread = threading.Thread(target=self._carry, name="input", daemon=True)

    def __enter__(self) -> Input:
        if self._terminal:
            self._before = signal.signal(signal.SIGWINCH, self._resized)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self._terminal:
            signal.signal(signal.SIGWINCH, self._before)  # type: ignore[arg-type]
        with suppress(OSError):
            os.write(self._wake_write, b"q")

    def _resized(self, _number: int, _frame: FrameType | None) -> None:
        with suppress(OSError):
            os.write(self._wake_write, b"w")

    def _carry(self) -> None:
        source = sys.stdin.fileno() if self._reads else None
        if source is None and not self._terminal:
            self._running.end_input()
        while True:
            watched = [self._wake_read] + ([] if source is None else [source])
            ready, _, _ = select.select(watched, [], [])
            if self._wake_read in ready:
                told = os.read(self._wake_read, 64)
                if b"q" in told:
                    return
                self._running.resize(window())
            if source is not None and source in ready:
                data = os.read(source, _CHUNK)
                if self._leave is not None and self._leave in data:
                    self.left = True
                    self._running.close()
                    return
                if data:
                    self._running.write(data)
                    continue
                source = None
                if self._leave is not None:
                    continue  # what one attached to goes on without us
                if self._terminal:
                    self._running.write(_END_OF_INPUT)
                else:
                    self._running.end_input()

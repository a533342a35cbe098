"""A terminal as a page that is drawn again and again: keys as they come, everything given back at the end.

Works in the alternate screen, so that what stood there before stands there afterwards, however this program
ends, short of KILL; also while it is stopped by Ctrl-Z. A signal handler writes a byte into a pipe, no more.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType
from typing import NoReturn

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J", "\x1b[?25h\x1b[?1049l"
_ENDING = (signal.SIGTERM, signal.SIGHUP)
#: What waits to be read.
KEY, WOKEN, RESIZED = "key", "woken", "resized"


class Screen:
    """Use as a context manager. `wake` may be called by any thread."""

    def __init__(self) -> None:
        self._keys = sys.stdin.fileno() if sys.stdin is not None and sys.stdin.isatty() else None
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._before: list[object] | None = None
        self._handlers: dict[int, object] = {}

    def __enter__(self) -> Screen:
        for number in _ENDING:
            self._handlers[number] = signal.signal(number, _end)
        self._handlers[signal.SIGWINCH] = signal.signal(signal.SIGWINCH, lambda *_: self._tell(b"r"))
        self._handlers[signal.SIGTSTP] = signal.signal(signal.SIGTSTP, self._stop)
        self._open()
        return self

    def __exit__(self, *_error: object) -> None:
        self._close()
        for number, handler in self._handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def draw(self, lines: Sequence[str]) -> None:
        """The page; what stood there before is gone."""
        shown = "\x1b[K\n".join(lines)
        sys.stdout.write(f"\x1b[H{shown}\x1b[K\x1b[J")
        sys.stdout.flush()

    def wait(self, seconds: float) -> tuple[str, bytes] | None:
        """What comes first within the time: a key, a call of `wake`, another size; None when nothing does."""
        watched = [self._read] + ([] if self._keys is None else [self._keys])
        ready, _, _ = select.select(watched, [], [], max(seconds, 0.0))
        if self._read in ready:
            return (RESIZED if b"r" in os.read(self._read, 64) else WOKEN), b""
        if self._keys is not None and self._keys in ready:
            data = os.read(self._keys, 64)
            if not data:  # hung up
                raise SystemExit(0)
            return KEY, data
        return None

    def wake(self) -> None:
        """Ends a `wait`."""
        self._tell(b"w")

    def _tell(self, byte: bytes) -> None:
        with suppress(OSError):
            os.write(self._write, byte)

    def _open(self) -> None:
        if self._keys is not None:
            self._before = termios.tcgetattr(self._keys)
            tty.setcbreak(self._keys)
        sys.stdout.write(_ENTER)
        sys.stdout.flush()

    def _close(self) -> None:
        with suppress(OSError, ValueError):
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()
        if self._keys is not None and self._before is not None:
            with suppress(termios.error):
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)  # type: ignore[arg-type]

    def _stop(self, _number: int, _frame: FrameType | None) -> None:
        """Ctrl-Z: the terminal is given back until the program goes on."""
        self._close()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._open()
        self._tell(b"r")


def _end(number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def size() -> tuple[int, int]:
    """(columns, lines) of the window."""
    with suppress(OSError, ValueError):
        found = os.get_terminal_size(sys.stdout.fileno())
        if found.columns > 0 and found.lines > 0:
            return found.columns, found.lines
    return 80, 24

"""A program on a terminal of its own: what is typed, what stands on the screen, how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ENTERED, LEFT = "\x1b[?1049h", "\x1b[?1049l"


class Terminal:
    """Runs a program with a controlling terminal of `columns` × `lines`. Usable as a context manager."""

    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], columns: int = 80, lines: int = 24
    ) -> None:
        self.written = ""
        self.status: int | None = None
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            try:
                self._set_size(1, columns, lines)
                os.execve(command[0], list(command), {**environ, "TERM": "xterm"})
            finally:
                os._exit(127)
        self.resize(columns, lines)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.end()
        os.close(self._fd)

    def resize(self, columns: int, lines: int) -> None:
        """Another size of the window."""
        self._set_size(self._fd, columns, lines)

    def type(self, keys: str) -> None:
        """What somebody types."""
        os.write(self._fd, keys.encode())

    def signal(self, number: int) -> None:
        """Sends a signal to the program."""
        os.kill(self.pid, number)

    def until(self, seen: Callable[[str], bool], seconds: float = 30.0) -> str:
        """The screen once it is as wanted."""
        deadline = time.monotonic() + seconds
        while not seen(self.screen()):
            assert time.monotonic() < deadline, f"never shown:\n{self.screen()}\n{self.written[-2000:]!r}"
            assert self._read(0.2), f"it ended:\n{self.written[-2000:]}"
        return self.screen()

    def shows(self, text: str, seconds: float = 30.0) -> str:
        """The screen once the text stands on it."""
        return self.until(lambda screen: text in screen, seconds)

    def wrote(self, text: str, seconds: float = 30.0) -> None:
        """Waits until the program has written a text; what it wrote before is forgotten."""
        deadline = time.monotonic() + seconds
        while text not in self.written:
            assert time.monotonic() < deadline, f"never written: {text!r}\n{self.written[-2000:]!r}"
            assert self._read(0.2), f"it ended:\n{self.written[-2000:]}"
        self.written = self.written.partition(text)[2]

    def end(self, seconds: float = 30.0) -> int:
        """Its exit status; negative: the signal that ended it."""
        deadline = time.monotonic() + seconds
        while self.status is None:
            self._read(0.05)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            assert time.monotonic() < deadline, f"it does not end: {self.written[-2000:]}"
        while self._read(0.05):
            pass
        return self.status

    def screen(self) -> str:
        """The last page that was drawn whole: a page begins at home and ends by clearing what is below."""
        pages = self.written.rpartition("\x1b[J")[0].rpartition("\x1b[H")[2]
        return _CONTROL.sub("", pages).replace("\r", "")

    def echoes(self) -> bool:
        """Whether the terminal is as it was: lines, and what is typed is shown."""
        modes = termios.tcgetattr(self._fd)[3]
        return bool(modes & termios.ECHO and modes & termios.ICANON)

    def state(self) -> str:
        """The letter of its state, e.g. `T` while it is stopped."""
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8", errors="replace")
        return stat.rpartition(")")[2].split()[0]

    def _read(self, seconds: float) -> bool:
        """Reads what is there; False once nothing more can come."""
        ready, _, _ = select.select([self._fd], [], [], seconds)
        if not ready:
            return self.status is None
        try:
            data = os.read(self._fd, 1 << 16)
        except OSError:  # nobody holds the other end any more
            return False
        self.written += data.decode("utf-8", "replace")
        return bool(data)

    @staticmethod
    def _set_size(fd: int, columns: int, lines: int) -> None:
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

"""The terminal of a member that asked for one: a process that carries it to the log and to whoever attaches.

It is a child of the member's supervisor and has the terminal's other end. What the program writes goes into
the log and to everybody who is attached; what they type, and their windows' sizes, go to the program. It ends
when nobody has the terminal open any more. Standard library only: the runner imports this.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import socket
import struct
import termios
import time
from contextlib import suppress
from typing import Any, NoReturn

from steelyard.engines.local import frames

SOCKET = "tty.sock"
_RECENT = 16_384  # bytes of the past that whoever attaches is shown
_ENOUGH = 1 << 20  # bytes that wait for one who does not read: it is let go
_DRAIN_SECONDS = 2.0
_MOST = 8  # attached at a time


def start(log: int, notes: str, user: int | None) -> tuple[int, int]:
    """(pid, the program's end of the terminal). Raises OSError."""
    master, slave = os.openpty()
    try:
        if user is not None:
            os.fchown(slave, user, -1)
        resize(master, 24, 80)
        pid = os.fork()
        if pid == 0:
            _serve(master, log, notes)
    except OSError:
        os.close(slave)
        raise
    finally:
        os.close(master)
    return pid, slave


def drain(pid: int) -> None:
    """What stands in the terminal gets into the log: waits for the process to end, but not for long."""
    until = time.monotonic() + _DRAIN_SECONDS
    while time.monotonic() < until:
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
        except ChildProcessError:
            return
        time.sleep(0.01)


def resize(terminal: int, rows: int, columns: int) -> None:
    """The window has this size now; whoever runs in it is told by the kernel."""
    with suppress(OSError):
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("=HHHH", rows, columns, 0, 0))


def is_size(size: object) -> bool:
    """Whether this is a pair of rows and columns."""
    return (
        isinstance(size, list) and len(size) == 2 and all(isinstance(n, int) and 0 < n < 10_000 for n in size)
    )


def read_size(data: bytes) -> list[int] | None:
    """The rows and columns of a RESIZE frame, None where they can't be meant. Raises ValueError."""
    said = json.loads(data)
    size: Any = [said.get("rows"), said.get("columns")] if isinstance(said, dict) else None
    return size if is_size(size) else None


def _serve(master: int, log: int, notes: str) -> NoReturn:
    try:
        low = 3
        for fd in sorted((master, log)):
            os.closerange(low, fd)
            low = fd + 1
        os.closerange(low, os.sysconf("SC_OPEN_MAX"))
        _Console(master, log, notes).carry()
    finally:
        os._exit(0)


class _Console:
    def __init__(self, master: int, log: int, notes: str) -> None:
        self.master, self.log = master, log
        self.recent = bytearray()
        self.typed = bytearray()
        self.peers: dict[int, frames.Link] = {}
        os.set_blocking(master, False)
        os.chdir(notes)  # the path of a socket may have 107 bytes only
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        with suppress(FileNotFoundError):
            os.unlink(SOCKET)
        os.umask(0o177)
        self.listener.bind(SOCKET)
        self.listener.listen(_MOST)

    def carry(self) -> None:
        """Until nobody has the terminal open."""
        while True:
            events = dict(self._poll())
            if self.master in events and not self._serve_terminal(events[self.master]):
                break
            if self.listener.fileno() in events:
                self._accept()
            for fd in [fd for fd in events if fd in self.peers]:
                if not self.peers[fd].serve(events[fd], self._take):
                    self._drop(fd)
        self._say_goodbye()

    def _poll(self) -> list[tuple[int, int]]:
        poll = select.poll()
        poll.register(self.master, select.POLLIN | (select.POLLOUT if self.typed else 0))
        poll.register(self.listener, select.POLLIN)
        for fd, peer in self.peers.items():
            reads = select.POLLIN if len(self.typed) < _ENOUGH else 0
            poll.register(fd, reads | (select.POLLOUT if peer.outgoing else 0))
        return poll.poll()

    def _serve_terminal(self, mask: int) -> bool:
        try:
            if mask & select.POLLOUT:
                del self.typed[: os.write(self.master, self.typed[: frames.CHUNK])]
            if mask & (select.POLLIN | select.POLLHUP | select.POLLERR):
                data = os.read(self.master, frames.CHUNK)
                if not data:
                    return False
                self._say(data)
        except BlockingIOError:
            return True
        except OSError:  # EIO: everybody has closed it
            return False
        return True

    def _say(self, data: bytes) -> None:
        with suppress(OSError):  # a full disk must not stop the program
            os.write(self.log, data)
        self.recent += data
        del self.recent[:-_RECENT]
        for fd, peer in list(self.peers.items()):
            peer.put(frames.STDOUT, data)
            if len(peer.outgoing) > _ENOUGH:
                self._drop(fd)

    def _accept(self) -> None:
        with suppress(OSError):
            sock, _ = self.listener.accept()
            if len(self.peers) >= _MOST:
                sock.close()
                return
            peer = self.peers[sock.fileno()] = frames.Link(sock)
            if self.recent:
                peer.put(frames.STDOUT, bytes(self.recent))

    def _take(self, channel: int, data: bytes) -> None:
        if channel == frames.STDIN:
            self.typed += data
        elif channel == frames.RESIZE and (size := read_size(data)) is not None:
            resize(self.master, *size)

    def _drop(self, fd: int) -> None:
        self.peers.pop(fd).sock.close()

    def _say_goodbye(self) -> None:
        status = {"code": None, "signal": None, "reason": "member-ended", "text": ""}
        for peer in self.peers.values():
            peer.put(frames.STATUS, json.dumps(status).encode("ascii"))
            peer.sock.settimeout(1.0)
            with suppress(OSError):
                peer.sock.sendall(peer.outgoing)
        with suppress(OSError):
            os.unlink(SOCKET)

"""The server's end of an execution: frames over the connection that the runner handed over."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress

from steelyard.engines.local import console, frames
from steelyard.model.errors import UnavailableError

_CHUNK = 1 << 16


def open_terminal(notes: str) -> LocalStream:
    """The terminal of a member, by its folder of notes. Raises UnavailableError `no-terminal`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        folder = os.open(notes, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sock.settimeout(10.0)
            sock.connect(f"/proc/self/fd/{folder}/{console.SOCKET}")  # a path of any length
        finally:
            os.close(folder)
    except OSError:
        sock.close()
        raise UnavailableError("no-terminal") from None
    return LocalStream(sock)


class LocalStream:
    """An execution as the port has it. One thread reads, another one writes; any may close."""

    def __init__(self, sock: socket.socket, before: bytes = b"") -> None:
        self._socket = sock
        self._socket.settimeout(None)
        self._incoming = frames.Unframer(before)
        self._lock = threading.Lock()

    def read(self) -> tuple[int, bytes] | None:
        """See the port."""
        while True:
            try:
                one = self._incoming.next()
                if one is not None:
                    return one
                data = self._socket.recv(_CHUNK)
            except (OSError, ValueError):
                return None
            if not data:
                return None
            self._incoming.feed(data)

    def write(self, channel: int, data: bytes) -> None:
        """See the port."""
        with self._lock, suppress(OSError):
            for begin in range(0, len(data) or 1, frames.MAX_PAYLOAD):
                self._socket.sendall(frames.frame(channel, data[begin : begin + frames.MAX_PAYLOAD]))

    def close(self) -> None:
        """See the port."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

"""The server's end of an execution: frames over the connection that the runner handed over."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from steelyard.engines.local import frames

_CHUNK = 1 << 16


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

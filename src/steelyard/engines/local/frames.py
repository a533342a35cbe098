"""Frames of an execution's stream over a unix socket: channel, length, bytes. Standard library only.

The channels are those of `steelyard.model.execution`, which the runner does not load.
"""

from __future__ import annotations

import select
import socket
import struct
from collections.abc import Callable

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
MAX_PAYLOAD = 1 << 16
CHUNK = 32_768
_HEAD = struct.Struct(">BI")
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR | select.POLLRDHUP


def frame(channel: int, data: bytes) -> bytes:
    """One frame; at most MAX_PAYLOAD bytes are taken."""
    return _HEAD.pack(channel, len(data)) + data


class Unframer:
    """Cuts what arrives into frames."""

    def __init__(self, before: bytes = b"") -> None:
        self._buffer = bytearray(before)

    def feed(self, data: bytes) -> None:
        """More bytes."""
        self._buffer += data

    def next(self) -> tuple[int, bytes] | None:
        """The next whole frame, None while there is none. Raises ValueError for what can be none."""
        if len(self._buffer) < _HEAD.size:
            return None
        channel, length = _HEAD.unpack_from(self._buffer)
        if channel > RESIZE or length > MAX_PAYLOAD:
            raise ValueError("not a frame")
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        data = bytes(self._buffer[_HEAD.size : end])
        del self._buffer[:end]
        return channel, data


class Link:
    """One end of a connection that carries frames both ways and never blocks."""

    def __init__(self, sock: socket.socket, before: bytes = b"") -> None:
        """`before`: what was received of it already."""
        sock.setblocking(False)
        self.sock = sock
        self.outgoing = bytearray()
        self._incoming = Unframer(before)

    def put(self, channel: int, data: bytes) -> None:
        """To be sent as soon as the other end takes it."""
        self.outgoing += frame(channel, data)

    def serve(self, mask: int, take: Callable[[int, bytes], None]) -> bool:
        """Moves bytes as poll's `mask` allows and hands over whole frames; False once the connection has
        ended, or says what can't be meant."""
        try:
            if mask & select.POLLOUT:
                del self.outgoing[: self.sock.send(self.outgoing)]
            if mask & _READABLE:
                data = self.sock.recv(CHUNK)
                if not data:
                    return False
                self._incoming.feed(data)
            while (one := self._incoming.next()) is not None:
                take(*one)
        except BlockingIOError:
            return True
        except (OSError, ValueError):
            return False
        return True

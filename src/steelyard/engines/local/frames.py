"""Frames of an execution's stream over a unix socket: channel, length, bytes. Standard library only.

The channels are those of `steelyard.model.execution`, which the runner does not load.
"""

from __future__ import annotations

import struct

STDIN, STDOUT, STDERR, STATUS, RESIZE = range(5)
MAX_PAYLOAD = 1 << 16
_HEAD = struct.Struct(">BI")


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

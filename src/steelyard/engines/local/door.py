"""The runner's door: a unix socket that only its own user may open, one JSON object a line.

Standard library only.
"""

from __future__ import annotations

import os
import selectors
import socket
import struct
from collections.abc import Callable
from typing import Any

from steelyard.engines.local import protocol
from steelyard.engines.local.paths import Layout, short_socket_path

#: (the connection's own memory, request) → result. Raises RequestError. A handler that leaves a HandOver
#: under HAND_OVER in the memory is given the connection itself, once the reply is on its way.
Handler = Callable[[dict[str, Any], dict[str, Any]], Any]
#: (socket, bytes that came after the request). The door lets go of the socket afterwards.
HandOver = Callable[[socket.socket, bytes], None]
HAND_OVER = "hand-over"
#: In the memory of a connection that listens: the count that it was told of last.
LISTENS = "listens"
_CREDENTIALS = struct.Struct("3i")
_CHUNK = 1 << 18


class RequestError(Exception):
    """A request that could not be served: a code, and a text for the log."""

    def __init__(self, code: str, text: str = "") -> None:
        super().__init__(code, text)
        self.code = code
        self.text = text


class Connection:
    """One server that speaks to us."""

    __slots__ = ("incoming", "memory", "outgoing", "socket")

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.memory: dict[str, Any] = {}


class Door:
    """Accepts connections and hands each request to the handler; never blocks."""

    def __init__(self, layout: Layout, selector: selectors.BaseSelector, handler: Handler) -> None:
        self._selector = selector
        self._handler = handler
        self.connections: set[Connection] = set()
        self._listener = _listen(layout)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Nobody is let in any more, or kept waiting: whoever asks next finds the next runner."""
        self._listener.close()
        for connection in self.connections:
            connection.socket.close()

    def tell(self, count: int) -> None:
        """Wakes whoever listens and was told of another count. One that does not read is not told twice."""
        for connection in self.connections:
            if connection.memory.get(LISTENS, count) != count and not connection.outgoing:
                connection.memory[LISTENS] = count
                connection.outgoing += protocol.encode({})
                self._watch(connection)

    def _accept(self, _mask: int) -> None:
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        _, uid, _ = _CREDENTIALS.unpack(
            sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in (os.geteuid(), 0):
            sock.close()
            return
        sock.setblocking(False)
        connection = Connection(sock)
        self.connections.add(connection)
        self._watch(connection)

    def _watch(self, connection: Connection) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.outgoing else 0)

        def serve(mask: int) -> None:
            self._serve(connection, mask)

        if connection.socket in self._selector.get_map():
            self._selector.modify(connection.socket, events, serve)
        else:
            self._selector.register(connection.socket, events, serve)

    def _serve(self, connection: Connection, mask: int) -> None:
        try:
            if mask & selectors.EVENT_READ and not self._read(connection):
                self._drop(connection)
                return
            if connection.outgoing:
                del connection.outgoing[: connection.socket.send(connection.outgoing)]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(connection)
            return
        self._watch(connection)

    def _read(self, connection: Connection) -> bool:
        chunk = connection.socket.recv(_CHUNK)
        connection.incoming += chunk
        if not chunk or len(connection.incoming) > protocol.MAX_LINE:
            return False
        *lines, rest = connection.incoming.split(b"\n")
        connection.incoming = rest
        for number, line in enumerate(lines):
            connection.outgoing += protocol.encode(self._answer(connection, bytes(line)))
            take = connection.memory.pop(HAND_OVER, None)
            if take is not None:
                self._hand_over(connection, take, b"\n".join([*lines[number + 1 :], rest]))
                return False
        return True

    def _hand_over(self, connection: Connection, take: HandOver, after: bytes) -> None:
        """The last that the door says and does on a connection."""
        connection.socket.settimeout(1.0)
        connection.socket.sendall(connection.outgoing)
        take(connection.socket, after)

    def _answer(self, connection: Connection, line: bytes) -> dict[str, Any]:
        number = None
        try:
            request = protocol.decode(line)
            number = request.get("id")
            result = self._handler(connection.memory, request)
        except RequestError as failed:
            return {"id": number, "ok": False, "code": failed.code, "text": failed.text}
        except Exception as wrong:  # the request's edge: no request may end the runner
            return {"id": number, "ok": False, "code": "request-invalid", "text": repr(wrong)[:300]}
        return {"id": number, "ok": True, "result": result}

    def _drop(self, connection: Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        self.connections.discard(connection)


def _listen(layout: Layout) -> socket.socket:
    """The listening socket. The caller holds the folder's lock, so an old socket is nobody's."""
    folder = os.open(layout.data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        path = short_socket_path(folder)
        if os.path.lexists(layout.socket):
            os.unlink(layout.socket)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        before = os.umask(0o177)
        try:
            listener.bind(path)
        finally:
            os.umask(before)
        listener.listen(64)
    finally:
        os.close(folder)
    return listener

"""Commands beside a member: the client's end of the WebSocket, synchronous."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlencode, urlsplit, urlunsplit

from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI, WebSocketException
from websockets.sync.client import ClientConnection, connect

from steelyard.client.errors import ApiError, NotReachableError
from steelyard.model.execution import Channel, TerminalSize

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PIECE = 32 * 1024
_OPEN_SECONDS = 15.0


class Execution:
    """A command that runs. One thread reads `pieces`, another one may write. Leaving it ends the command.

    `status` is {code, signal, reason, text} once the pieces are at an end.
    """

    def __init__(self, connection: ClientConnection, url: str, opened: dict[str, Any]) -> None:
        self._connection = connection
        self._url = url
        self.id = str(opened.get("id"))
        self.member = str(opened.get("member"))
        self.status: dict[str, Any] | None = None

    def __enter__(self) -> Execution:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def pieces(self) -> Iterator[tuple[Channel, bytes]]:
        """(STDOUT or STDERR, bytes) as they come. Raises NotReachableError when the connection is lost."""
        try:
            for message in self._connection:
                if not isinstance(message, bytes) or not message:
                    continue
                channel, data = message[0], message[1:]
                if channel == Channel.STATUS:
                    self.status = json.loads(data)
                    return
                if channel in (Channel.STDOUT, Channel.STDERR):
                    yield Channel(channel), data
        except (OSError, WebSocketException, ValueError) as error:
            raise self._lost(error) from error
        raise self._lost(None)

    def write(self, data: bytes) -> None:
        """Bytes of its input."""
        for begin in range(0, len(data), _PIECE):
            self._send(Channel.STDIN, data[begin : begin + _PIECE])

    def end_input(self) -> None:
        """No more input."""
        self._send(Channel.STDIN, b"")

    def resize(self, size: TerminalSize) -> None:
        """The window has another size now."""
        self._send(Channel.RESIZE, json.dumps({"rows": size.rows, "columns": size.columns}).encode())

    def close(self) -> None:
        """Let go; what still runs is ended."""
        with suppress(OSError, WebSocketException):
            self._connection.close()

    def _send(self, channel: Channel, data: bytes) -> None:
        with suppress(OSError, WebSocketException):  # whoever reads is told
            self._connection.send(bytes((channel,)) + data)

    def _lost(self, error: Exception | None) -> NotReachableError:
        reason = "closed" if error is None else str(error)[:200] or type(error).__name__
        return NotReachableError("server-not-reachable", url=self._url, reason=reason)


def open_execution(
    url: str,
    token: str | None,
    lang: str,
    workload_id: str,
    member: str | None,
    request: dict[str, Any] | None,
) -> Execution:
    """Runs a command beside a member, or, without a request, attaches to its terminal. Raises ApiError for a
    problem, NotReachableError without an answer."""
    headers = {"Accept-Language": lang} | ({"Authorization": f"Bearer {token}"} if token else {})
    loopback = urlsplit(url).hostname in _LOOPBACK
    door = "attach" if request is None else "exec"
    address = _address(url, f"/v1/workloads/{quote(workload_id, safe='')}/{door}", member)
    try:
        connection = connect(
            address,
            additional_headers=headers,
            compression=None,
            open_timeout=_OPEN_SECONDS,
            max_size=1 << 20,
            proxy=None if loopback else True,
        )
    except InvalidStatus as refused:
        raise _problem(refused.response.status_code, refused.response.body) from refused
    except (OSError, InvalidHandshake, InvalidURI, TimeoutError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise NotReachableError("server-not-reachable", url=url, reason=reason) from error
    try:
        if request is not None:
            connection.send(json.dumps(request))
        opened = json.loads(connection.recv(timeout=60))
    except (OSError, WebSocketException, ValueError, TimeoutError) as error:
        connection.close()
        raise NotReachableError("server-not-reachable", url=url, reason=str(error)[:200]) from error
    if "id" not in opened:
        connection.close()
        raise ApiError(int(opened.get("status") or 500), opened)
    return Execution(connection, url, opened)


def _address(url: str, path: str, member: str | None) -> str:
    parts = urlsplit(url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    query = urlencode({"member": member}) if member else ""
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, query, ""))


def _problem(status: int, body: bytes | bytearray | None) -> ApiError:
    try:
        found = json.loads(body or b"")
    except ValueError:
        found = {}
    return ApiError(status, found if isinstance(found, dict) else {})

"""Commands beside a member: the client's end of the WebSocket, synchronous."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
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
#: How long the server may take to say that the command runs.
ANSWER_SECONDS = 60.0
END_OF_INPUT = bytes((Channel.STDIN,))
NOT_OPENED = (OSError, InvalidHandshake, InvalidURI, TimeoutError)
BROKEN = (OSError, WebSocketException, ValueError, TimeoutError)


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
                piece = piece_of(message)
                if piece is None:
                    continue
                if piece[0] == Channel.STATUS:
                    self.status = json.loads(piece[1])
                    return
                yield piece
        except (OSError, WebSocketException, ValueError) as error:
            raise lost(self._url, error) from error
        raise lost(self._url, None)

    def write(self, data: bytes) -> None:
        """Bytes of its input."""
        for message in input_pieces(data):
            self._send(message)

    def end_input(self) -> None:
        """No more input."""
        self._send(END_OF_INPUT)

    def resize(self, size: TerminalSize) -> None:
        """The window has another size now."""
        self._send(resized(size))

    def close(self) -> None:
        """Let go; what still runs is ended."""
        with suppress(OSError, WebSocketException):
            self._connection.close()

    def _send(self, message: bytes) -> None:
        with suppress(OSError, WebSocketException):  # whoever reads is told
            self._connection.send(message)


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
    address, options = opening(url, token, lang, workload_id, member, attach=request is None)
    try:
        connection = connect(address, **options)
    except InvalidStatus as refused:
        raise problem_of_handshake(refused) from refused
    except NOT_OPENED as error:
        raise not_opened(url, error) from error
    try:
        if request is not None:
            connection.send(json.dumps(request))
        opened = json.loads(connection.recv(timeout=ANSWER_SECONDS))
    except BROKEN as error:
        connection.close()
        raise not_opened(url, error) from error
    if "id" not in opened:
        connection.close()
        raise ApiError(int(opened.get("status") or 500), opened)
    return Execution(connection, url, opened)


def request_of(command: Sequence[str], terminal: TerminalSize | None, term: str | None) -> dict[str, Any]:
    """What is asked for: a command, with a terminal or without."""
    request: dict[str, Any] = {"command": list(command)}
    if terminal is not None:
        request["terminal"] = {"rows": terminal.rows, "columns": terminal.columns}
    if term is not None:
        request["term"] = term
    return request


def opening(
    url: str, token: str | None, lang: str, workload_id: str, member: str | None, *, attach: bool
) -> tuple[str, dict[str, Any]]:
    """The address of a WebSocket and the options it is opened with."""
    headers = {"Accept-Language": lang} | ({"Authorization": f"Bearer {token}"} if token else {})
    loopback = urlsplit(url).hostname in _LOOPBACK
    door = "attach" if attach else "exec"
    address = _address(url, f"/v1/workloads/{quote(workload_id, safe='')}/{door}", member)
    return address, {
        "additional_headers": headers,
        "compression": None,
        "open_timeout": _OPEN_SECONDS,
        "max_size": 1 << 20,
        "proxy": None if loopback else True,
    }


def piece_of(message: str | bytes) -> tuple[Channel, bytes] | None:
    """Channel and bytes of a message; None for what is neither output nor the end."""
    if not isinstance(message, bytes) or not message:
        return None
    if message[0] not in (Channel.STDOUT, Channel.STDERR, Channel.STATUS):
        return None
    return Channel(message[0]), message[1:]


def input_pieces(data: bytes) -> Iterator[bytes]:
    """Bytes of an input as messages."""
    for begin in range(0, len(data), _PIECE):
        yield bytes((Channel.STDIN,)) + data[begin : begin + _PIECE]


def resized(size: TerminalSize) -> bytes:
    """A new size as a message."""
    return bytes((Channel.RESIZE,)) + json.dumps({"rows": size.rows, "columns": size.columns}).encode()


def lost(url: str, error: Exception | None) -> NotReachableError:
    """The connection broke off."""
    reason = "closed" if error is None else str(error)[:200] or type(error).__name__
    return NotReachableError("server-not-reachable", url=url, reason=reason)


def not_opened(url: str, error: Exception) -> NotReachableError:
    """Nobody answered."""
    return NotReachableError("server-not-reachable", url=url, reason=str(error)[:200] or type(error).__name__)


def problem_of_handshake(refused: InvalidStatus) -> ApiError:
    """The problem that the server answered with in place of a WebSocket."""
    try:
        found = json.loads(refused.response.body or b"")
    except ValueError:
        found = {}
    return ApiError(refused.response.status_code, found if isinstance(found, dict) else {})


def _address(url: str, path: str, member: str | None) -> str:
    parts = urlsplit(url)
    scheme = "wss" if parts.scheme == "https" else "ws"
    query = urlencode({"member": member}) if member else ""
    return urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + path, query, ""))

"""Commands beside a member: the client's end of the WebSocket, awaited."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from steelyard.client import execution
from steelyard.client.errors import ApiError
from steelyard.model.execution import Channel, TerminalSize


class AsyncExecution:
    """A command that runs. Its pieces are read while another task may write. Leaving it ends the command.

    `status` is {code, signal, reason, text} once the pieces are at an end.
    """

    def __init__(self, connection: ClientConnection, url: str, opened: dict[str, Any]) -> None:
        self._connection = connection
        self._url = url
        self.id = str(opened.get("id"))
        self.member = str(opened.get("member"))
        self.status: dict[str, Any] | None = None

    async def __aenter__(self) -> AsyncExecution:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def pieces(self) -> AsyncIterator[tuple[Channel, bytes]]:
        """(STDOUT or STDERR, bytes) as they come. Raises NotReachableError when the connection is lost."""
        try:
            async for message in self._connection:
                piece = execution.piece_of(message)
                if piece is None:
                    continue
                if piece[0] == Channel.STATUS:
                    self.status = json.loads(piece[1])
                    return
                yield piece
        except (OSError, WebSocketException, ValueError) as error:
            raise execution.lost(self._url, error) from error
        raise execution.lost(self._url, None)

    async def write(self, data: bytes) -> None:
        """Bytes of its input."""
        for message in execution.input_pieces(data):
            await self._send(message)

    async def end_input(self) -> None:
        """No more input."""
        await self._send(execution.END_OF_INPUT)

    async def resize(self, size: TerminalSize) -> None:
        """The window has another size now."""
        await self._send(execution.resized(size))

    async def close(self) -> None:
        """Let go; what still runs is ended."""
        with suppress(OSError, WebSocketException):
            await self._connection.close()

    async def _send(self, message: bytes) -> None:
        with suppress(OSError, WebSocketException):  # whoever reads is told
            await self._connection.send(message)


async def open_execution(
    url: str,
    token: str | None,
    lang: str,
    workload_id: str,
    member: str | None,
    request: dict[str, Any] | None,
) -> AsyncExecution:
    """As `client.execution.open_execution`."""
    address, options = execution.opening(url, token, lang, workload_id, member, attach=request is None)
    try:
        connection = await connect(address, **options)
    except InvalidStatus as refused:
        raise execution.problem_of_handshake(refused) from refused
    except execution.NOT_OPENED as error:
        raise execution.not_opened(url, error) from error
    try:
        if request is not None:
            await connection.send(json.dumps(request))
        opened = json.loads(await asyncio.wait_for(connection.recv(), execution.ANSWER_SECONDS))
    except execution.BROKEN as error:
        await connection.close()
        raise execution.not_opened(url, error) from error
    if "id" not in opened:
        await connection.close()
        raise ApiError(int(opened.get("status") or 500), opened)
    return AsyncExecution(connection, url, opened)

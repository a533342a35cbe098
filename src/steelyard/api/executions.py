"""Commands beside a member, and its terminal: WebSockets that carry input and output.

Before one is opened the caller is known and may run commands there, else the answer is a problem as of every
route. For a command the first message is text: JSON of {command, terminal: {rows, columns}, term}. The answer
is text, too: {id, member}, or a problem, after which it is closed. From then on every message is one byte of
`model.execution.Channel` and its bytes. A status is the last of them. The command ends with the connection; a
member that was attached to does not.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from fastapi import APIRouter, WebSocket
from starlette.websockets import WebSocketDisconnect, WebSocketState

from steelyard.api import problems
from steelyard.api.auth import identified
from steelyard.api.context import Services, origin_of, services_of
from steelyard.model.errors import InvalidError, SteelyardError
from steelyard.model.execution import IDLE_LIMIT, LEFT, TIME_LIMIT, Channel
from steelyard.model.ids import parse, render
from steelyard.model.organisation import Principal
from steelyard.model.units import HOUR, MINUTE
from steelyard.services.executions import MOST, Executions, Running, read_request
from steelyard.services.sessions import require_own_password

router = APIRouter(prefix="/v1/workloads/{workload_id}", tags=["workloads"])
LONGEST = 12 * HOUR  # a command; µs
IDLE = 30 * MINUTE  # without a byte in either direction; µs
FIRST_MESSAGE = 10.0  # seconds
ASK_AGAIN = 2.0  # seconds after which it is asked whether the caller still may
MAX_MESSAGE = 64 * 1024
_KEY = "executions"
_METHOD = "WEBSOCKET"
_POLICY, _BROKEN = 1008, 1002
T = TypeVar("T")
#: Each command waits for its output in a thread, and now and then for its input in another one.
_threads: RunVar[CapacityLimiter] = RunVar("executions")


def executions(services: Services) -> Executions:
    """The server's own."""
    found = services.extra.get(_KEY)
    if not isinstance(found, Executions):
        found = services.extra[_KEY] = Executions(
            services.store, lambda cluster: services.engines.get(cluster)
        )
    return found


async def _blocking(work: Callable[[], T]) -> T:
    """In a thread that is let go when nobody waits for it any more: closing the stream ends it."""
    try:
        limiter = _threads.get()
    except LookupError:
        limiter = CapacityLimiter(3 * MOST)
        _threads.set(limiter)
    return await anyio.to_thread.run_sync(work, limiter=limiter, abandon_on_cancel=True)


@router.websocket("/exec")
async def execute(websocket: WebSocket, workload_id: str, member: str | None = None) -> None:
    """Run a command beside a member."""
    await _open(websocket, workload_id, member, attach=False)


@router.websocket("/attach")
async def attach(websocket: WebSocket, workload_id: str, member: str | None = None) -> None:
    """The terminal of a member's own program."""
    await _open(websocket, workload_id, member, attach=True)


async def _open(websocket: WebSocket, workload_id: str, member: str | None, *, attach: bool) -> None:
    services = services_of(websocket)
    websocket.scope["steelyard.request_id"] = render("request", services.store.ids.next())
    found = executions(services)
    try:
        number = parse("workload", workload_id)
        who = await anyio.to_thread.run_sync(_admitted, websocket, found, number)
    except SteelyardError as error:
        problems.note(websocket, error, _METHOD)
        await websocket.send_denial_response(problems.answer(websocket, error))
        return
    await websocket.accept()
    with suppress(WebSocketDisconnect, RuntimeError):  # RuntimeError: it was closed before we could answer
        try:
            wanted = None if attach else read_request(await _first(websocket), LONGEST)
            running = await anyio.to_thread.run_sync(
                found.begin, who, number, member, wanted, origin_of(websocket)
            )
        except SteelyardError as error:
            problems.note(websocket, error, _METHOD)
            await websocket.send_text(bytes(problems.answer(websocket, error).body).decode())
            await websocket.close(_POLICY)
            return
        await _carry(websocket, found, running, number)


def _admitted(websocket: WebSocket, found: Executions, workload_id: int) -> Principal:
    known = identified(websocket)
    require_own_password(known)
    found.check(known.principal, workload_id)
    return known.principal


async def _first(websocket: WebSocket) -> Any:
    try:
        return json.loads(await asyncio.wait_for(websocket.receive_text(), FIRST_MESSAGE))
    except (ValueError, KeyError, RecursionError):
        raise InvalidError("body-not-json") from None
    except TimeoutError:
        raise InvalidError("field-missing", path="execution.command") from None


class _Conversation:
    """One command and its connection. `status` is what is told and recorded of its end."""

    def __init__(self, websocket: WebSocket, running: Running) -> None:
        self.websocket = websocket
        self.running = running
        self.status: dict[str, Any] = {"code": None, "signal": None, "reason": LEFT, "text": ""}
        self.since = self.active = time.monotonic()

    async def outward(self) -> None:
        """What the command says, until it says how it ended."""
        while (piece := await _blocking(self.running.stream.read)) is not None:
            channel, data = piece
            self.active = time.monotonic()
            if channel == Channel.STATUS:
                with suppress(ValueError):
                    self.status = json.loads(data)
                return
            await self.websocket.send_bytes(bytes((channel,)) + data)

    async def inward(self) -> None:
        """What the caller says, until it leaves."""
        while True:
            message = await self.websocket.receive()
            if message["type"] != "websocket.receive":
                return
            data = message.get("bytes")
            if not data or len(data) > MAX_MESSAGE or data[0] not in (Channel.STDIN, Channel.RESIZE):
                self.status["reason"] = "message-invalid"
                return
            self.active = time.monotonic()
            await _blocking(partial(self.running.stream.write, data[0], data[1:]))

    async def watch(self, may: Callable[[], None]) -> None:
        """Until a limit is reached, or the caller may no more."""
        while True:
            await anyio.sleep(ASK_AGAIN)
            now = time.monotonic()
            if now - self.since > LONGEST / 1_000_000:
                self.status["reason"] = TIME_LIMIT
                return
            if now - self.active > IDLE / 1_000_000:
                self.status["reason"] = IDLE_LIMIT
                return
            try:
                await anyio.to_thread.run_sync(may)
            except SteelyardError as error:
                self.status["reason"] = error.code
                return


async def _carry(websocket: WebSocket, found: Executions, running: Running, workload_id: int) -> None:
    one = _Conversation(websocket, running)

    def may() -> None:
        websocket.state.identified = None  # asked anew
        _admitted(websocket, found, workload_id)

    async with _ended(one):
        await websocket.send_text(json.dumps({"id": running.id, "member": running.member}))
        async with anyio.create_task_group() as group:
            for work in (one.outward, one.inward, lambda: one.watch(may)):
                group.start_soon(_then_cancel, work, group.cancel_scope)


async def _then_cancel(work: Callable[[], Any], scope: anyio.CancelScope) -> None:
    """The first that is done ends the others: nothing more can come."""
    with suppress(WebSocketDisconnect, RuntimeError):
        await work()
    scope.cancel()


@asynccontextmanager
async def _ended(one: _Conversation) -> AsyncIterator[None]:
    """Whatever happens: the command is let go, its end recorded, and the caller told."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            one.running.stream.close()
            await anyio.to_thread.run_sync(one.running.end, one.status)
            if one.websocket.client_state is WebSocketState.CONNECTED:
                with suppress(WebSocketDisconnect, RuntimeError):
                    told = json.dumps(one.status).encode()
                    await one.websocket.send_bytes(bytes((Channel.STATUS,)) + told)
                    await one.websocket.close(1000)

"""The edge of the app: every request gets an id, a bounded body, and answers that are not cached."""

from __future__ import annotations

import time
from collections.abc import Callable
from hashlib import sha256
from typing import TypeAlias

import anyio.to_thread
import structlog
from fastapi import Request
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from steelyard.api import problems
from steelyard.api.bodies import MAX_SMALL_BODY, check_json, largest
from steelyard.model.errors import InvalidError, SteelyardError

REQUEST_ID = "steelyard.request_id"
BODY_DIGEST = "steelyard.body_digest"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_METHODS = _SAFE | {"POST", "PUT", "PATCH", "DELETE"}
#: The label of what is no address or method of ours: whoever asks must not make labels.
NO_ROUTE = "other"
_log = structlog.get_logger("steelyard.api")
OnAnswer: TypeAlias = Callable[[str, str, int, float], None]


class Edge:
    """ASGI middleware around the whole app. `new_id` renders a request id; `identify` raises
    UnauthenticatedError for a request without a credential that holds. `on_answer` is told of each answer
    when it begins: method, pattern of its route, status, seconds."""

    def __init__(
        self,
        app: ASGIApp,
        new_id: Callable[[], str],
        identify: Callable[[Request], object],
        on_answer: OnAnswer | None = None,
    ) -> None:
        self._app = app
        self._on_answer = on_answer
        self._new_id = new_id
        self._identify = identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[REQUEST_ID] = self._new_id()
        with structlog.contextvars.bound_contextvars(request_id=scope[REQUEST_ID]):
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = _with_headers(self._timed(scope, send), scope[REQUEST_ID])
        try:
            if scope["method"] not in _SAFE:
                receive = await self._checked_body(scope, receive)
        except SteelyardError as error:
            await problems.answer(Request(scope), error)(scope, receive, sending)
            return
        await self._app(scope, receive, sending)

    def _timed(self, scope: Scope, send: Send) -> Send:
        told = self._on_answer
        began = time.monotonic()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", "") or NO_ROUTE
                method = scope["method"] if scope["method"] in _METHODS else NO_ROUTE
                seconds = time.monotonic() - began
                _log.debug("answered", method=method, route=route, status=message["status"], seconds=seconds)
                if told is not None:
                    told(method, route, message["status"], seconds)
            await send(message)

        return sending

    async def _checked_body(self, scope: Scope, receive: Receive) -> Receive:
        """Reads the body whole, checks it, and hands it on. A large one is taken only of somebody who is
        known. Raises InvalidError, UnauthenticatedError."""
        headers = Headers(scope=scope)
        most = largest(scope["path"])
        declared = headers.get("content-length", "")
        size = int(declared) if declared.isdecimal() else most
        if size > most:
            raise InvalidError("body-too-large", most=most)
        if size > MAX_SMALL_BODY:
            await anyio.to_thread.run_sync(self._identify, Request(scope))
        body = await _read(receive, most)
        scope[BODY_DIGEST] = sha256(body).hexdigest()
        if body and "json" in headers.get("content-type", "json"):
            if len(body) <= MAX_SMALL_BODY:
                check_json(body)
            else:
                await anyio.to_thread.run_sync(check_json, body)
        return _replayed(body, receive)


def _with_headers(send: Send, request_id: str) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = request_id
            headers.setdefault("Cache-Control", "no-store")
            headers.setdefault("X-Content-Type-Options", "nosniff")
        await send(message)

    return sending


async def _read(receive: Receive, most: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return b"".join(parts)
        part = message.get("body", b"")
        size += len(part)
        if size > most:
            raise InvalidError("body-too-large", most=most)
        parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    given = False

    async def again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again

"""How the asynchronous client sends its calls; several may be under way at once."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from steelyard.client import steps
from steelyard.client.asynchronous.transport import AsyncTransport
from steelyard.client.call import Call, Pages, Pause
from steelyard.client.requests import DEFAULT_URL
from steelyard.client.shown import shown
from steelyard.client.transport import Query, body_of, problem_of

Self = TypeVar("Self", bound="AsyncRequests")
T = TypeVar("T")


class AsyncRequests:
    """A connection to a server. Usable as an asynchronous context manager, within one event loop.

    `transport`, `sleep` and `clock` are given by tests.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        lang: str = "en",
        *,
        tries: int = 3,
        timeout: float = 30.0,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = AsyncTransport(
            url, token, lang, tries=tries, timeout=timeout, transport=transport, sleep=sleep
        )
        self._sleep, self._clock, self._lang = sleep, clock, lang

    @classmethod
    def from_environment(cls: type[Self], environ: Mapping[str, str] = os.environ) -> Self:
        """By STEELYARD_URL, STEELYARD_TOKEN and STEELYARD_LANG."""
        url = environ.get("STEELYARD_URL") or DEFAULT_URL
        return cls(url, environ.get("STEELYARD_TOKEN"), environ.get("STEELYARD_LANG") or "en")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    async def __aenter__(self: Self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.url

    async def close(self) -> None:
        """Ends the connections."""
        await self._transport.close()

    async def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None
    ) -> tuple[int, Any]:
        """Status and decoded body of any request; a problem is an answer here, too."""
        answer = await self._transport.call(method, path, query=query, body=body)
        return answer.status_code, body_of(answer)

    async def download(
        self, path: str, body: Any = None, *, method: str = "POST", patience: float | None = None
    ) -> bytes:
        """The bytes of an answer. `patience`: seconds to wait for them, where they take more than usual."""
        answer = await self._transport.call(method, path, body=body, repeatable=True, patience=patience)
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer.content

    async def _ask(self, call: Call[T]) -> T:
        answer = await self._transport.call(call.method, call.path, **call.options())
        return call.result(answer, self._lang)

    async def _run(self, taken: steps.Steps[T]) -> T:
        """Carries out what takes several requests."""
        answer: Any = None
        while True:
            try:
                step = taken.send(answer)
            except StopIteration as done:
                result: T = done.value
                return result
            answer = await (self._sleep(step.seconds) if isinstance(step, Pause) else self._ask(step))

    async def _items(self, pages: Pages[T], most: int | None = None) -> list[T]:
        return await self._run(steps.items(pages, most, self._lang))

    async def _each(self, pages: Pages[T]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            rows, cursor = steps.rows_of(await self._ask(pages.page(cursor)))
            for row in shown(rows, pages.of, self._lang):
                yield row
            if not cursor:
                return

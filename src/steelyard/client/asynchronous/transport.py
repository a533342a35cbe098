"""HTTP to one server, awaited: the tries and the streams of `client.transport`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any

import httpx

from steelyard.client.transport import (
    Events,
    Exchange,
    Query,
    invalid_address,
    problem_of,
    settings,
    stream_request,
    unreachable,
)


class AsyncTransport:
    """HTTP to one server. The token goes into a header only, never into a text."""

    def __init__(
        self,
        url: str,
        token: str | None,
        lang: str,
        *,
        tries: int,
        timeout: float,
        transport: httpx.AsyncBaseTransport | None,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._tries = tries
        self._sleep = sleep
        with invalid_address(self.url):
            self._http = httpx.AsyncClient(**settings(self.url, lang, timeout), transport=transport)

    async def close(self) -> None:
        """Ends the connections."""
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        patience: float | None = None,
    ) -> httpx.Response:
        """The answer, whatever its status. `patience`: seconds to wait for it, where it takes more than most.
        Raises NotReachableError when there is none."""
        tries = Exchange(
            self.url, self.token, self._tries, method,
            query=query, body=body, headers=headers, repeatable=repeatable, patience=patience,
        )  # fmt: skip
        while True:
            try:
                answer = await self._http.request(method, path, **tries.request)
            except httpx.HTTPError as error:
                pause: float | None = tries.failed(error)
            else:
                pause = tries.answered(answer)
                if pause is None:
                    return answer
            await self._sleep(pause or 0.0)

    async def stream(self, path: str, *, query: Query | None = None) -> AsyncGenerator[tuple[str, str], None]:
        """(event, data) pairs of a stream of server-sent events, until the server ends it."""
        try:
            async with self._http.stream("GET", path, **stream_request(query, self.token)) as answer:
                if answer.status_code >= 400:
                    await answer.aread()
                    raise problem_of(answer)
                events = Events()
                async for line in answer.aiter_lines():
                    if (event := events.line(line)) is not None:
                        yield event
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error

"""How the client sends its calls: one connection, one language, everything in its turn."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from steelyard.client import steps
from steelyard.client.call import Call, Pages, Pause
from steelyard.client.shown import shown
from steelyard.client.transport import Query, Transport, body_of, problem_of

DEFAULT_URL = "http://127.0.0.1:7580"
Self = TypeVar("Self", bound="Requests")
T = TypeVar("T")


class Requests:
    """A connection to a server. Usable as a context manager; not shared between threads.

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
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._transport = Transport(
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

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.url

    def close(self) -> None:
        """Ends the connections."""
        self._transport.close()

    def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None
    ) -> tuple[int, Any]:
        """Status and decoded body of any request; a problem is an answer here, too."""
        answer = self._transport.call(method, path, query=query, body=body)
        return answer.status_code, body_of(answer)

    def download(
        self, path: str, body: Any = None, *, method: str = "POST", patience: float | None = None
    ) -> bytes:
        """The bytes of an answer. `patience`: seconds to wait for them, where they take more than usual."""
        answer = self._transport.call(method, path, body=body, repeatable=True, patience=patience)
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer.content

    def _ask(self, call: Call[T]) -> T:
        answer = self._transport.call(call.method, call.path, **call.options())
        return call.result(answer, self._lang)

    def _run(self, taken: steps.Steps[T]) -> T:
        """Carries out what takes several requests."""
        answer: Any = None
        try:
            while True:
                step = taken.send(answer)
                answer = self._sleep(step.seconds) if isinstance(step, Pause) else self._ask(step)
        except StopIteration as done:
            result: T = done.value
            return result

    def _items(self, pages: Pages[T], most: int | None = None) -> list[T]:
        return self._run(steps.items(pages, most, self._lang))

    def _each(self, pages: Pages[T]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            rows, cursor = steps.rows_of(self._ask(pages.page(cursor)))
            yield from shown(rows, pages.of, self._lang)
            if not cursor:
                return

"""The requests that every method of the client is made of: JSON, pages, versions, idempotency."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, TypeVar

import httpx

from steelyard.client.transport import Query, Transport, decoded, problem_of
from steelyard.client.views import Json

PAGE = 200
DEFAULT_URL = "http://127.0.0.1:7580"
Self = TypeVar("Self", bound="Requests")


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
        try:
            return answer.status_code, answer.json() if answer.content else None
        except ValueError:
            return answer.status_code, answer.text

    def download(
        self, path: str, body: Any = None, *, method: str = "POST", patience: float | None = None
    ) -> bytes:
        """The bytes of an answer. `patience`: seconds to wait for them, where they take more than usual."""
        answer = self._transport.call(method, path, body=body, repeatable=True, patience=patience)
        if answer.status_code >= 400:
            raise problem_of(answer)
        return answer.content

    def _get(self, path: str, query: Query | None = None) -> Any:
        return decoded(self._transport.call("GET", path, query=query))

    def _delete(self, path: str) -> Any:
        return decoded(self._transport.call("DELETE", path))

    def _post(
        self,
        path: str,
        body: Any = None,
        *,
        repeatable: bool = True,
        version: int | None = None,
        key: str | None = None,
        query: Query | None = None,
        patience: float | None = None,
    ) -> Any:
        headers = {} if version is None else {"If-Match": f'"{version}"'}
        if key is not None:
            headers["Idempotency-Key"] = key
        return decoded(
            self._transport.call(
                "POST",
                path,
                query=query,
                body=body,
                headers=headers,
                repeatable=repeatable,
                patience=patience,
            )
        )

    def _items(self, path: str, query: Query | None = None, most: int | None = None) -> list[Json]:
        """Items of all pages, at most `most`."""
        items: list[Json] = []
        cursor: str | None = None
        while most is None or len(items) < most:
            limit = PAGE if most is None else min(PAGE, most - len(items))
            page = self._get(path, {**(query or {}), "limit": limit, "cursor": cursor})
            if isinstance(page, list):
                return page[:most]
            items += page["items"]
            cursor = page.get("next_cursor")
            if not cursor:
                break
        return items if most is None else items[:most]

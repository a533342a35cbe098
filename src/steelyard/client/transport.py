"""Requests: one credential, one language, retries that can't do a thing twice, problems as errors."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx

from steelyard.client.errors import ApiError, NotReachableError

Query: TypeAlias = Mapping[str, str | int | bool | None]

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_TRY_AGAIN = {502, 503, 504}
_MAX_PAUSE = 5.0
#: Nothing was sent when one of these is raised.
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class Transport:
    """HTTP to one server.

    A request is tried again (`tries` times in all) when nothing was sent, and, if it is repeatable,
    also when its answer was lost or the server asks for patience (502, 503, 504). A change carries one
    Idempotency-Key over all its tries. The token goes into a header only, never into a text.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        lang: str,
        *,
        tries: int = 3,
        timeout: float = 30.0,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.url = url.rstrip("/")
        self.token = token
        self._tries = tries
        self._sleep = sleep
        try:
            host = urlsplit(self.url).hostname
            if host is None or urlsplit(self.url).scheme not in ("http", "https"):
                raise ValueError("http://HOST:PORT")
            self._http = httpx.Client(
                base_url=self.url,
                headers={"Accept-Language": lang, "Accept": "application/json"},
                timeout=httpx.Timeout(timeout, connect=5.0),
                transport=transport,
                trust_env=host not in _LOOPBACK,  # a proxy has no way to this machine's own loopback
                follow_redirects=False,  # the credential goes nowhere else
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise NotReachableError("server-address-invalid", url=url[:200], reason=str(error)) from None

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def call(
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
        sent = self._headers(headers)
        if method not in ("GET", "HEAD"):
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        again = method in ("GET", "HEAD", "DELETE") if repeatable is None else repeatable
        request: dict[str, Any] = {"params": _query(query), "headers": sent}
        if body is not None:
            request["json"] = body
        if patience is not None:
            request["timeout"] = httpx.Timeout(patience, connect=5.0)
        pause = 0.1
        for attempt in range(1, self._tries + 1):
            last = attempt == self._tries
            try:
                answer = self._http.request(method, path, **request)
            except _NOT_SENT as error:
                if last:
                    raise self._unreachable(error) from error
            except httpx.HTTPError as error:
                if last or not again:
                    raise self._unreachable(error) from error
            else:
                if last or not again or answer.status_code not in _TRY_AGAIN:
                    return answer
                pause = _retry_after(answer, pause)
            self._sleep(pause)
            pause = min(pause * 3, _MAX_PAUSE)
        raise AssertionError("a try returns or raises")

    def stream(self, path: str, *, query: Query | None = None) -> Iterator[tuple[str, str]]:
        """(event, data) pairs of a stream of server-sent events, until the server ends it."""
        try:
            with self._http.stream(
                "GET",
                path,
                params=_query(query),
                headers=self._headers({"Accept": "text/event-stream"}),
                timeout=httpx.Timeout(30.0, read=60.0),  # the server says something every 15 seconds
            ) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise problem_of(answer)
                yield from _events(answer.iter_lines())
        except httpx.HTTPError as error:
            raise self._unreachable(error) from error

    def _headers(self, more: Mapping[str, str] | None) -> dict[str, str]:
        headers = dict(more or {})
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return headers

    def _unreachable(self, error: Exception) -> NotReachableError:
        return NotReachableError("server-not-reachable", url=self.url, reason=_said(error))


def problem_of(answer: httpx.Response) -> ApiError:
    """The error of an answer of 400 and above."""
    return ApiError(answer.status_code, _mapping(answer))


def decoded(answer: httpx.Response) -> Any:
    """The JSON of an answer. Raises ApiError for a problem, NotReachableError for what is no JSON."""
    if answer.status_code >= 400:
        raise problem_of(answer)
    if answer.status_code < 300 and not answer.content:
        return None
    try:
        if answer.status_code < 300:
            return answer.json()
    except ValueError:
        pass
    where = str(answer.request.url.copy_with(query=None))
    raise NotReachableError("server-not-ours", url=where, status=answer.status_code)


def _mapping(answer: httpx.Response) -> dict[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def _query(query: Query | None) -> dict[str, str]:
    shown = {}
    for key, value in (query or {}).items():
        if value is not None and value is not False:
            shown[key] = "true" if value is True else str(value)
    return shown


def _retry_after(answer: httpx.Response, pause: float) -> float:
    asked = answer.headers.get("Retry-After", "")
    return min(float(asked), _MAX_PAUSE) if asked.isdigit() else pause


def _said(error: Exception) -> str:
    return str(error)[:200] or type(error).__name__


def _events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
    name, data = "message", list[str]()
    for line in lines:
        if not line:
            if data:
                yield name, "\n".join(data)
            name, data = "message", []
        elif line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))


def parsed(data: str) -> Any:
    """The JSON of an event's data; the data itself where it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return data

"""Requests: one credential, one language, retries that can't do a thing twice, problems as errors."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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


class Exchange:
    """The tries of one request: what goes out, and after each try whether another one follows.

    A request is tried again (`tries` times in all) when nothing was sent, and, if it is repeatable,
    also when its answer was lost or the server asks for patience (502, 503, 504). A change carries one
    Idempotency-Key over all its tries.
    """

    def __init__(
        self,
        url: str,
        token: str | None,
        tries: int,
        method: str,
        *,
        query: Query | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool | None = None,
        patience: float | None = None,
    ) -> None:
        sent = with_token(headers, token)
        if method not in ("GET", "HEAD"):
            sent.setdefault("Idempotency-Key", uuid.uuid4().hex)
        self.request: dict[str, Any] = {"params": text_query(query), "headers": sent}
        if body is not None:
            self.request["json"] = body
        if patience is not None:
            self.request["timeout"] = httpx.Timeout(patience, connect=5.0)
        self._again = method in ("GET", "HEAD", "DELETE") if repeatable is None else repeatable
        self._url, self._left, self._pause = url, tries, 0.1

    def answered(self, answer: httpx.Response) -> float | None:
        """None: the answer stands. Else the seconds before the next try."""
        self._left -= 1
        if not self._left or not self._again or answer.status_code not in _TRY_AGAIN:
            return None
        self._pause = _retry_after(answer, self._pause)
        return self._next()

    def failed(self, error: httpx.HTTPError) -> float:
        """The seconds before the next try. Raises NotReachableError when there is none."""
        self._left -= 1
        if not self._left or not (self._again or isinstance(error, _NOT_SENT)):
            raise unreachable(self._url, error) from error
        return self._next()

    def _next(self) -> float:
        pause = self._pause
        self._pause = min(pause * 3, _MAX_PAUSE)
        return pause


class Transport:
    """HTTP to one server. The token goes into a header only, never into a text."""

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
        with invalid_address(self.url):
            self._http = httpx.Client(**settings(self.url, lang, timeout), transport=transport)

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
        tries = Exchange(
            self.url, self.token, self._tries, method,
            query=query, body=body, headers=headers, repeatable=repeatable, patience=patience,
        )  # fmt: skip
        while True:
            try:
                answer = self._http.request(method, path, **tries.request)
            except httpx.HTTPError as error:
                pause: float | None = tries.failed(error)
            else:
                pause = tries.answered(answer)
                if pause is None:
                    return answer
            self._sleep(pause or 0.0)

    def stream(self, path: str, *, query: Query | None = None) -> Iterator[tuple[str, str]]:
        """(event, data) pairs of a stream of server-sent events, until the server ends it."""
        try:
            with self._http.stream("GET", path, **stream_request(query, self.token)) as answer:
                if answer.status_code >= 400:
                    answer.read()
                    raise problem_of(answer)
                events = Events()
                for line in answer.iter_lines():
                    if (event := events.line(line)) is not None:
                        yield event
        except httpx.HTTPError as error:
            raise unreachable(self.url, error) from error


class Events:
    """Server-sent events, line by line."""

    def __init__(self) -> None:
        self._name, self._data = "message", list[str]()

    def line(self, line: str) -> tuple[str, str] | None:
        """The (event, data) that a line ends, if it ends one."""
        if not line:
            found = (self._name, "\n".join(self._data)) if self._data else None
            self._name, self._data = "message", []
            return found
        if line.startswith("event:"):
            self._name = line[6:].strip()
        elif line.startswith("data:"):
            self._data.append(line[5:].removeprefix(" "))
        return None


@contextmanager
def invalid_address(url: str) -> Iterator[None]:
    """Raises NotReachableError for an address that is none."""
    try:
        yield
    except (httpx.InvalidURL, ValueError) as error:
        raise NotReachableError("server-address-invalid", url=url[:200], reason=str(error)) from None


def settings(url: str, lang: str, timeout: float) -> dict[str, Any]:
    """What every connection to an address is opened with. Raises ValueError for one that is none."""
    host = urlsplit(url).hostname
    if host is None or urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("http://HOST:PORT")
    return {
        "base_url": url,
        "headers": {"Accept-Language": lang, "Accept": "application/json"},
        "timeout": httpx.Timeout(timeout, connect=5.0),
        "trust_env": host not in _LOOPBACK,  # a proxy has no way to this machine's own loopback
        "follow_redirects": False,  # the credential goes nowhere else
    }


def stream_request(query: Query | None, token: str | None) -> dict[str, Any]:
    """What a stream of events is asked for with."""
    return {
        "params": text_query(query),
        "headers": with_token({"Accept": "text/event-stream"}, token),
        "timeout": httpx.Timeout(30.0, read=60.0),  # the server says something every 15 seconds
    }


def with_token(headers: Mapping[str, str] | None, token: str | None) -> dict[str, str]:
    """The headers with the credential."""
    return {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}


def unreachable(url: str, error: Exception) -> NotReachableError:
    """Nobody answered."""
    return NotReachableError("server-not-reachable", url=url, reason=str(error)[:200] or type(error).__name__)


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


def text_query(query: Query | None) -> dict[str, str]:
    """A query as it is sent; None and False are left out."""
    shown = {}
    for key, value in (query or {}).items():
        if value is not None and value is not False:
            shown[key] = "true" if value is True else str(value)
    return shown


def _retry_after(answer: httpx.Response, pause: float) -> float:
    asked = answer.headers.get("Retry-After", "")
    return min(float(asked), _MAX_PAUSE) if asked.isdigit() else pause


def parsed(data: str) -> Any:
    """The JSON of an event's data; the data itself where it is none."""
    try:
        return json.loads(data)
    except ValueError:
        return data


def body_of(answer: httpx.Response) -> Any:
    """The JSON of an answer; its text where it is none."""
    try:
        return answer.json() if answer.content else None
    except ValueError:
        return answer.text

"""The public API as the story uses it: JSON in, JSON out, one credential a door."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from steelyard.demo.expect import Json
from steelyard.model.errors import UnavailableError

T = TypeVar("T")
Query = Mapping[str, str | int | bool | None]


class Answer(Protocol):
    """What a request came back with."""

    status: int

    def json(self) -> Any:
        """The body."""
        ...


class Door(Protocol):
    """One user's way to the API. Answers of 400 and above are answers, too: nothing is raised for them."""

    def call(
        self, method: str, path: str, *, query: Query | None = None, body: Any = None
    ) -> tuple[int, Any]:
        """Status and decoded body; UnavailableError where nobody answers."""
        ...

    def download(self, path: str, body: Any) -> bytes:
        """The bytes that a POST answers with. Raises UnavailableError for anything but success."""
        ...


class Unexpected(Exception):
    """The API answered with an error where the story needs success."""

    def __init__(self, method: str, path: str, status: int, problem: Any) -> None:
        code = problem.get("code", "") if isinstance(problem, dict) else ""
        detail = problem.get("detail", "") if isinstance(problem, dict) else str(problem)
        super().__init__(f"{method} {path}: {status} {code} {detail}".strip())
        self.status = status
        self.code = code


def get(door: Door, path: str, **query: str | int | bool | None) -> Any:
    """The body of a GET that has to succeed. Raises Unexpected."""
    status, body = door.call("GET", path, query=query)
    if status >= 400:
        raise Unexpected("GET", path, status, body)
    return body


def post(door: Door, path: str, body: Any = None, **query: str | int | bool | None) -> Any:
    """The body of a POST that has to succeed. Raises Unexpected."""
    status, answer = door.call("POST", path, query=query, body=body)
    if status >= 400:
        raise Unexpected("POST", path, status, answer)
    return answer


def every(door: Door, path: str, **query: str | int | bool | None) -> list[Json]:
    """All items of a list, page after page."""
    items: list[Json] = []
    cursor: str | None = None
    while True:
        page = get(door, path, **query, limit=200, cursor=cursor)
        if isinstance(page, list):
            return page
        items += page["items"]
        cursor = page.get("next_cursor")
        if not cursor:
            return items


def wait(what: str, look: Callable[[], T | None], seconds: float = 30.0, pause: float = 0.1) -> T:
    """What `look` gives as soon as it is not None. Raises UnavailableError naming `what` after the time."""
    deadline = time.monotonic() + seconds
    while True:
        seen = look()
        if seen is not None:
            return seen
        if time.monotonic() > deadline:
            raise UnavailableError("demo-waited-in-vain", what=what, seconds=int(seconds))
        time.sleep(pause)

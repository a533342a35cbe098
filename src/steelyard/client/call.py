"""A request as a value: written once, sent by the client and by the asynchronous client alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from steelyard.client.shown import shown
from steelyard.client.transport import Query, decoded, problem_of

T = TypeVar("T")
#: Items in one page of a list.
PAGE = 200


def _whole(answer: Any) -> Any:
    return answer


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and what becomes of its answer.

    `version` goes into If-Match, `key` into Idempotency-Key. `repeatable` None: by the method. `patience`:
    seconds to wait for the answer, where it takes more than most. `raw`: the answer is bytes. `of`: the
    noun of what is answered, by which it shows itself (`shown`).
    """

    method: str
    path: str
    query: Query | None = None
    body: Any = None
    version: int | None = None
    key: str | None = None
    repeatable: bool | None = None
    patience: float | None = None
    raw: bool = False
    of: str | None = None
    pick: Callable[[Any], Any] = _whole

    def options(self) -> dict[str, Any]:
        """What the transport is given."""
        headers = {} if self.version is None else {"If-Match": f'"{self.version}"'}
        if self.key is not None:
            headers["Idempotency-Key"] = self.key
        return {
            "query": self.query,
            "body": self.body,
            "headers": headers,
            "repeatable": self.repeatable,
            "patience": self.patience,
        }

    def result(self, answer: httpx.Response, lang: str) -> T:
        """What the method returns. Raises ApiError for a problem."""
        if not self.raw:
            found: T = shown(self.pick(decoded(answer)), self.of, lang)
            return found
        if answer.status_code >= 400:
            raise problem_of(answer)
        content: T = answer.content  # type: ignore[assignment]
        return content


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that is read page after page; `of` as in `Call`."""

    path: str
    query: Query | None = None
    of: str | None = None

    def page(self, cursor: str | None, limit: int = PAGE) -> Call[Any]:
        """One page."""
        return get(self.path, {**(self.query or {}), "limit": limit, "cursor": cursor})


@dataclass(frozen=True, slots=True)
class Pause:
    """A wait between two calls."""

    seconds: float


def get(path: str, query: Query | None = None, *, of: str | None = None) -> Call[Any]:
    """A question."""
    return Call("GET", path, query, of=of)


def post(path: str, body: Any = None, *, repeatable: bool = True, **options: Any) -> Call[Any]:
    """A change, or a question with a body. `options` as in `Call`."""
    return Call("POST", path, body=body, repeatable=repeatable, **options)


def delete(path: str) -> Call[Any]:
    """An end."""
    return Call("DELETE", path)


def part(text: str) -> str:
    """One segment of a path; nothing in it can lead elsewhere."""
    return quote(text, safe="") if text.strip(".") else quote(text, safe="").replace(".", "%2E")

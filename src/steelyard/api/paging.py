"""Pages of lists: `?cursor=&limit=`, answered with `items` and `next_cursor`."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query

from steelyard.model.errors import InvalidError

T = TypeVar("T")
MAX_LIMIT = 500
MAX_CURSOR = 400


@dataclass(frozen=True, slots=True)
class Page:
    """What of a list is asked for. `after` is the key of the last item of the page before."""

    after: str | None
    limit: int


async def page(
    cursor: Annotated[str | None, Query(max_length=MAX_CURSOR, description="next_cursor of a page")] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIMIT)] = 50,
) -> Page:
    """The page that a request asks for. Raises InvalidError `cursor-invalid`."""
    return Page(None if not cursor else decode_cursor(cursor), limit)


PageDep = Annotated[Page, Depends(page)]


def encode_cursor(key: str) -> str:
    """An opaque cursor for the key of a page's last item."""
    return base64.urlsafe_b64encode(key.encode()).decode().rstrip("=")


def decode_cursor(cursor: str) -> str:
    """The key. Raises InvalidError `cursor-invalid`."""
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return base64.b64decode(padded.encode("ascii"), b"-_", validate=True).decode()
    except (ValueError, binascii.Error):
        raise InvalidError("cursor-invalid") from None


def paged(items: list[Any], next_key: str | None) -> dict[str, Any]:
    """The answer of a list whose page was cut by the store; `next_key` None: it is the last."""
    return {"items": items, "next_cursor": None if next_key is None else encode_cursor(next_key)}


def cut(
    everything: Sequence[T], asked: Page, key: Callable[[T], str], show: Callable[[T], Any]
) -> dict[str, Any]:
    """The answer of a short list that is read whole: the page after the item with a key, or after that
    item's place where it has gone meanwhile."""
    start = 0 if asked.after is None else _place(everything, asked.after, key)
    end = start + asked.limit
    found = everything[start:end]
    more = bool(found) and end < len(everything)
    return paged([show(item) for item in found], f"{end}|{key(found[-1])}" if more else None)


def _place(everything: Sequence[T], after: str, key: Callable[[T], str]) -> int:
    place, _, last = after.partition("|")
    if not place.isdigit() or len(place) > 9:
        raise InvalidError("cursor-invalid")
    return next((index + 1 for index, item in enumerate(everything) if key(item) == last), int(place))

"""Request bodies before anybody reads them: bounded in size and depth, and JSON without double meanings."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from steelyard.model.errors import InvalidError

MAX_SMALL_BODY = 64 * 1024
MAX_BODY = 1024 * 1024
MAX_APPLY_BODY = 10 * 1024 * 1024
MAX_DEPTH = 64
_OF_PATH = {
    "/v1/objects:apply": MAX_APPLY_BODY,
    "/v1/workloads:submit": MAX_APPLY_BODY,
    "/v1/sessions": MAX_SMALL_BODY,
}


def largest(path: str) -> int:
    """How many bytes a request to this path may carry. What answers without a credential takes few."""
    return _OF_PATH.get(path, MAX_BODY)


def check_json(data: bytes) -> None:
    """Raises InvalidError for a body that is not JSON, has a key twice, NaN or Infinity, a lone
    surrogate, or is nested deeper than 64."""
    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_constant)
    except RecursionError:
        raise InvalidError("body-too-deep", most=MAX_DEPTH) from None
    except ValueError:
        raise InvalidError("body-not-json") from None
    _check(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidError("body-key-twice", key=key[:60])
            seen.add(key)
    return found


def _constant(name: str) -> NoReturn:
    raise InvalidError("body-number-invalid", value=name)


def _check(value: Any) -> None:
    """Depth and sound text, without recursion."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below.extend(item.values())
                below.extend(item.keys())
            elif isinstance(item, list):
                below.extend(item)
            elif isinstance(item, str) and not item.isascii() and not _sound(item):
                raise InvalidError("body-text-invalid")
        if not below:
            return
        level = below
    raise InvalidError("body-too-deep", most=MAX_DEPTH)


def _sound(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)

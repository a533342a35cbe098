"""Canonical JSON (RFC 8785) for everything that is hashed or signed, and the guard around it.

msgspec's deterministic encoder gives the bytes of RFC 8785 as long as objects have ASCII keys, numbers are
integers within 2**53 - 1, and strings are sound Unicode; `encode` enforces that, `encode_trusted` is told
so. Strings must also be in Unicode form NFC, for two spellings of a name must not be two records.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any, NoReturn

import msgspec

from steelyard.model.errors import InvalidError

MAX_INT = 2**53 - 1
MAX_DEPTH = 64

encode_trusted = msgspec.json.Encoder(order="deterministic").encode
"""RFC 8785 bytes of what our own builders made: no check at all."""


def encode(obj: object) -> bytes:
    """RFC 8785 bytes of dict, list, tuple, str, int, bool and None.

    Raises InvalidError with a code `canonical-…` for floats, other types, integers beyond 2**53 - 1, keys
    that are not ASCII text, strings with lone surrogates or not in form NFC, and nesting beyond 64.
    """
    _guard(obj, 0)
    return encode_trusted(obj)


def check_text(text: str) -> None:
    """Refuse a string that has two spellings (not NFC) or none (lone surrogates)."""
    if text.isascii():
        return
    if any("\ud800" <= char <= "\udfff" for char in text):
        raise InvalidError("canonical-surrogate")
    if not unicodedata.is_normalized("NFC", text):
        raise InvalidError("canonical-not-nfc", text=text[:80])


def _guard(obj: object, depth: int) -> None:
    if obj is None or isinstance(obj, bool):
        return
    if isinstance(obj, str):
        check_text(obj)
    elif isinstance(obj, int):
        if not -MAX_INT <= obj <= MAX_INT:
            raise InvalidError("canonical-integer-range")
    elif depth >= MAX_DEPTH:
        raise InvalidError("canonical-depth", limit=MAX_DEPTH)
    elif isinstance(obj, dict):
        for key, value in obj.items():
            if not isinstance(key, str) or not key.isascii():
                raise InvalidError("canonical-key", key=str(key)[:80])
            _guard(value, depth + 1)
    elif isinstance(obj, list | tuple):
        for value in obj:
            _guard(value, depth + 1)
    elif isinstance(obj, float):
        raise InvalidError("canonical-float")
    else:
        raise InvalidError("canonical-type", type=type(obj).__name__)


def decode_strict(data: bytes) -> Any:
    """The value of canonical bytes; anything that is not exactly canonical is refused.

    Raises InvalidError: `canonical-syntax`, `canonical-duplicate-key`, `canonical-bytes` (the value is
    sound but written otherwise: white space, key order, escapes), or what `encode` raises.
    """
    try:
        value = json.loads(
            data.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except RecursionError as error:
        raise InvalidError("canonical-depth", limit=MAX_DEPTH) from error
    except ValueError as error:
        raise InvalidError("canonical-syntax") from error
    if encode(value) != data:
        raise InvalidError("canonical-bytes")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise InvalidError("canonical-duplicate-key")
    return result


def _no_float(_: str) -> NoReturn:
    raise InvalidError("canonical-float")

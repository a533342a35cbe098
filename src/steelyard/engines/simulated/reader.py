"""Reads one mapping of a declared document strictly: unknown keys, wrong types and bounds name their path."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, NoReturn, TypeVar

from steelyard.model.errors import InvalidError
from steelyard.model.units import parse_duration, parse_quantity

T = TypeVar("T")

MAX_TEXT = 253
_ZERO = frozenset({"0", "0s", "0ms"})


class Reader:
    """A mapping with its path. Each `take` uses up a key; `finish` refuses what is left over."""

    def __init__(self, raw: object, path: str) -> None:
        if not isinstance(raw, dict) or any(not isinstance(key, str) for key in raw):
            raise InvalidError("field-invalid", path=path, expected="mapping")
        self._left: dict[str, Any] = dict(raw)
        self._known: set[str] = set()  # keys that were asked for: what a misspelt one may have meant
        self.path = path

    def at(self, key: str) -> str:
        """The path of a key."""
        return f"{self.path}.{key}"

    def has(self, key: str) -> bool:
        """Whether the key was given and not yet taken."""
        self._known.add(key)
        return key in self._left

    def left(self) -> tuple[str, ...]:
        """The keys that nobody took yet."""
        return tuple(self._left)

    def take(self, key: str, default: object = None) -> Any:
        """The raw value; the caller checks it."""
        self._known.add(key)
        return self._left.pop(key, default)

    def text(self, key: str, default: str | None = None, *, limit: int = MAX_TEXT) -> str:
        """A text that is not empty and not longer than `limit`. Without a default it is required."""
        if not self.has(key) and default is not None:
            return default
        value = self.take(key)
        if value is None:
            self.missing(key)
        if not isinstance(value, str) or not value or len(value) > limit or not value.isprintable():
            raise InvalidError("field-invalid", path=self.at(key), expected="text")
        return value

    def optional_text(self, key: str, *, limit: int = MAX_TEXT) -> str | None:
        """A text, or None where the key is not given."""
        return self.text(key, limit=limit) if self.has(key) else None

    def integer(self, key: str, default: int | None, *, low: int, high: int) -> int:
        """A whole number in [low, high]."""
        value = self.take(key, default)
        if value is None:
            self.missing(key)
        if isinstance(value, bool) or not isinstance(value, int):
            raise InvalidError("field-invalid", path=self.at(key), expected="whole number")
        if not low <= value <= high:
            raise InvalidError("field-out-of-bounds", path=self.at(key), low=low, high=high)
        return value

    def flag(self, key: str) -> bool:
        """true or false; false where the key is not given."""
        value = self.take(key, False)
        if not isinstance(value, bool):
            raise InvalidError("field-invalid", path=self.at(key), expected="true or false")
        return value

    def quantity(self, key: str, resource: str, default: object = None) -> int:
        """A positive quantity in the resource's unit (`model.units`)."""
        raw = self.take(key, default)
        if raw is None:
            self.missing(key)
        value = self._within(key, lambda: parse_quantity(resource, raw))
        if value <= 0:
            raise InvalidError("field-invalid", path=self.at(key), expected="positive quantity")
        return value

    def duration(self, key: str, default: int) -> int:
        """µs; zero is allowed."""
        return default if not self.has(key) else self._within(key, lambda: self._duration(key))

    def optional_duration(self, key: str) -> int | None:
        """µs, or None where the key is not given."""
        return self.duration(key, 0) if self.has(key) else None

    def items(self, key: str, limit: int) -> list[tuple[Any, str]]:
        """The entries of a list with their paths; empty where the key is not given."""
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InvalidError("field-invalid", path=self.at(key), expected="list")
        if len(value) > limit:
            raise InvalidError("field-out-of-bounds", path=self.at(key), low=0, high=limit)
        return [(entry, f"{self.at(key)}[{index}]") for index, entry in enumerate(value)]

    def finish(self) -> None:
        """Raises InvalidError for the first key that nobody took."""
        for key in self._left:
            self.refuse(key)

    def refuse(self, key: str) -> NoReturn:
        """Raises InvalidError for a key that means nothing here, with the known one that it resembles."""
        shown = "".join(character if character.isprintable() else "?" for character in key[:60])
        near = get_close_matches(key[:60], sorted(self._known), 1, 0.7)
        if near:
            raise InvalidError("field-unknown", path=self.at(shown), near=near[0])
        raise InvalidError("field-unknown", path=self.at(shown))

    def missing(self, key: str) -> NoReturn:
        """Raises InvalidError for a key that is needed: of one that seems misspelt, names that one."""
        given = get_close_matches(key, [name for name in self._left if len(name) <= 60], 1, 0.75)
        if given:
            self.refuse(given[0])
        raise InvalidError("field-missing", path=self.at(key))

    def _duration(self, key: str) -> int:
        value = self.take(key)
        if (isinstance(value, int) and not isinstance(value, bool) and value == 0) or (
            isinstance(value, str) and value.strip() in _ZERO
        ):
            return 0
        return parse_duration(value)

    def _within(self, key: str, parse: Callable[[], T]) -> T:
        try:
            return parse()
        except InvalidError as error:
            raise InvalidError(error.code, path=self.at(key), **error.params) from None

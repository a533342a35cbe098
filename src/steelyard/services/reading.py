"""How declared documents are read: the strict reader of mappings, with what only documents have in them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

from steelyard.engines.simulated.reader import MAX_TEXT, Reader
from steelyard.model.errors import InvalidError
from steelyard.model.resources import DeviceClass
from steelyard.model.units import MAX_QUANTITY, parse_duration, parse_quantity, unit_of
from steelyard.services.faults import Faults

E = TypeVar("E", bound=StrEnum)
T = TypeVar("T")

MAX_ITEMS = 1000
MAX_LABELS = 64
NAME = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,61}[a-z0-9])?")
_LABEL_KEY = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_./]{0,251}[A-Za-z0-9])?")


class DocumentReader(Reader):
    """A mapping of a declared document. Raises InvalidError with the path of what is wrong; given `faults`,
    it notes it there instead and reads on, with a value of the right type in its place."""

    def __init__(self, raw: object, path: str, faults: Faults | None = None) -> None:
        super().__init__(raw, path)
        self.faults = faults

    def attempt(self, instead: T, read: Callable[[], T]) -> T:
        """What `read` gives; where that is wrong and faults are noted, `instead`."""
        if self.faults is None:
            return read()
        try:
            return read()
        except InvalidError as error:
            self.faults.add(error)
            return instead

    def wrong(self, code: str, path: str, **params: str | int | None) -> None:
        """Raises InvalidError, or notes it."""
        error = InvalidError(code, path=path, **params)
        if self.faults is None:
            raise error
        self.faults.add(error)

    def is_wrong(self, key: str) -> bool:
        """Whether a fault was noted of a key: then what was read of it means nothing."""
        return self.faults is not None and self.faults.has(self.at(key))

    def text(self, key: str, default: str | None = None, *, limit: int = MAX_TEXT) -> str:
        """See `Reader`."""
        return self.attempt(default or "", partial(super().text, key, default, limit=limit))

    def integer(self, key: str, default: int | None, *, low: int, high: int) -> int:
        """See `Reader`."""
        return self.attempt(
            low if default is None else default, partial(super().integer, key, default, low=low, high=high)
        )

    def flag(self, key: str) -> bool:
        """See `Reader`."""
        return self.attempt(False, partial(super().flag, key))

    def items(self, key: str, limit: int) -> list[tuple[Any, str]]:
        """See `Reader`."""
        return self.attempt([], partial(super().items, key, limit))

    def finish(self) -> None:
        """Raises InvalidError for the first key that nobody took, or notes all."""
        for key in self.left():
            self.attempt(None, partial(self.refuse, key))

    def name(self, key: str) -> str:
        """A required object name: `[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?`."""
        return self.attempt("", partial(self._name, key))

    def _name(self, key: str) -> str:
        raw = self.take(key)
        if raw is None:
            self.missing(key)
        return check_name(raw, self.at(key))

    def optional_name(self, key: str) -> str | None:
        """An object name, or None where the key is not given or null."""
        return self.name(key) if self._left.get(key) is not None else self.take(key)

    def choice(self, key: str, kind: type[E], default: E | None = None) -> E:
        """A word of a closed list. Without a default it is required."""
        value = self.text(key, default.value if default is not None else None)
        if value not in {item.value for item in kind}:
            self.wrong("field-invalid", self.at(key), expected=" | ".join(item.value for item in kind))
            return default if default is not None else next(iter(kind))
        return kind(value)

    def amount(self, key: str, resource: str, default: int | None = None) -> int:
        """A quantity in the resource's unit, zero allowed."""
        return self.attempt(default or 0, partial(self._amount, key, resource, default))

    def _amount(self, key: str, resource: str, default: int | None) -> int:
        raw = self.take(key)
        if raw is None and default is not None:
            return default
        if raw is None:
            self.missing(key)
        return read_amount(raw, resource, self.at(key))

    def optional_amount(self, key: str, resource: str) -> int | None:
        """A quantity, or None where the key is not given or null."""
        return self.amount(key, resource) if self._left.get(key) is not None else self.take(key)

    def span(self, key: str, default: int | None, *, longest: int) -> int | None:
        """A positive duration in µs, at most `longest`; the default where the key is not given or null."""
        raw = self.take(key)
        if raw is None:
            return default
        value = self.attempt(default, partial(self._within, key, partial(parse_duration, raw)))
        if value is not None and value > longest:
            self.wrong("span-out-of-bounds", self.at(key), low=0, high=longest)
        return value

    def reader(self, key: str) -> DocumentReader:
        """The mapping below a key; an empty one where the key is not given or null."""
        raw = self.take(key)
        return self.below({} if raw is None else raw, self.at(key))

    def below(self, raw: object, path: str) -> DocumentReader:
        """A mapping within this one; an empty one in the place of what is none."""
        instead = DocumentReader({}, path, self.faults)
        return self.attempt(instead, partial(DocumentReader, raw, path, self.faults))

    def readers(self, key: str, limit: int = MAX_ITEMS) -> list[DocumentReader]:
        """The mappings of a list."""
        return [self.below(raw, path) for raw, path in self.items(key, limit)]

    def names(self, key: str, limit: int = MAX_ITEMS) -> tuple[str, ...]:
        """A list of object names without doubles."""
        found = tuple(
            self.attempt("", partial(check_name, raw, path)) for raw, path in self.items(key, limit)
        )
        self._unique(key, found)
        return found

    def texts(self, key: str, limit: int = MAX_ITEMS, length: int = MAX_TEXT) -> tuple[str, ...]:
        """A list of printable texts without doubles."""
        found = []
        for raw, path in self.items(key, limit):
            if not isinstance(raw, str) or not 0 < len(raw) <= length or not raw.isprintable():
                self.wrong("field-invalid", path, expected="text")
                continue
            found.append(raw)
        self._unique(key, found)
        return tuple(found)

    def labels(self, key: str = "labels") -> tuple[tuple[str, str], ...]:
        """Labels, sorted by key."""
        inner = self.reader(key)
        keys = inner.left()
        if len(keys) > MAX_LABELS:
            self.wrong("field-out-of-bounds", self.at(key), low=0, high=MAX_LABELS)
        for label in keys:
            if not _LABEL_KEY.fullmatch(label):
                self.wrong("field-invalid", inner.at(shown(label)), expected="label")
        return tuple(sorted((label, inner.text(label)) for label in keys))

    def _unique(self, key: str, found: Iterable[str]) -> None:
        listed = list(found)
        if len(set(listed)) != len(listed):
            self.wrong("field-invalid", self.at(key), expected="entries without doubles")


def shown(value: object) -> str:
    """A short, printable form of anything, for error parameters."""
    text = value[:60] if isinstance(value, str) else str(type(value).__name__)
    return "".join(character if character.isprintable() else "?" for character in text)


def check_name(raw: object, path: str) -> str:
    """The name. Raises InvalidError `name-invalid` with at most 60 characters of what was given."""
    if raw is None:
        raise InvalidError("field-missing", path=path)
    if not isinstance(raw, str) or len(raw) > 63 or not NAME.fullmatch(raw):
        raise InvalidError("name-invalid", path=path, name=shown(raw))
    return raw


def check_label_key(raw: object, path: str) -> str:
    """The key of a label. Raises InvalidError."""
    if not isinstance(raw, str) or len(raw) > 253 or not _LABEL_KEY.fullmatch(raw):
        raise InvalidError("field-invalid", path=path, expected="label")
    return raw


def given(**values: Any) -> dict[str, Any]:
    """The keys that hold something."""
    return {key: value for key, value in values.items() if value is not None and value != [] and value != {}}


def read_amount(raw: object, resource: str, path: str) -> int:
    """A quantity, zero allowed, in the resource's unit. Raises InvalidError with the path."""
    try:
        return parse_quantity(resource, raw)
    except InvalidError as error:
        raise InvalidError(error.code, path=path, **error.params) from None


def write_amount(resource: str, quantity: int) -> int | str:
    """The form that `read_amount` reads back to the same quantity: `2`, `500m`; MiB for memory."""
    unit, finer = unit_of(resource)
    if finer > 1:
        return write_amount(unit, quantity // finer)
    if resource == DeviceClass.MEMORY or quantity > MAX_QUANTITY:
        return quantity
    whole, milli = divmod(quantity, 1000)
    return f"{quantity}m" if milli else whole


def deep_merge(below: Any, above: Any) -> Any:
    """`above` laid over `below`: mappings merge key by key, everything else is replaced."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    merged = dict(below)
    for key, value in above.items():
        merged[key] = deep_merge(below[key], value) if key in below else value
    return merged

"""All that is wrong in a document: noted while it is read to its end, each place once, and told together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from steelyard.model.errors import Fault, InvalidError

MOST = 50
_STEP = re.compile(r"[^.\[\]]+")


class Faults:
    """What was found so far, in the order in which it was found."""

    def __init__(self) -> None:
        self._found: list[InvalidError] = []
        self._paths: list[str] = []

    def __bool__(self) -> bool:
        return bool(self._found)

    def add(self, error: InvalidError) -> None:
        """Note a fault. One above or below another's place comes of that and is left out; so is what
        is more than `MOST`."""
        path = str(error.params.get("path") or "")
        known = any(_within(path, one) or _within(one, path) for one in self._paths)
        if len(self._found) < MOST and not known:
            self._found.append(error)
            self._paths.append(path)

    def has(self, path: str) -> bool:
        """Whether something at this place, or below it, is wrong."""
        return any(_within(one, path) for one in self._paths)

    def error(self, document: object) -> InvalidError:
        """The first fault as an error that carries all of them."""
        first = self._found[0]
        told = InvalidError(first.code, **first.params)
        told.faults = tuple(
            Fault(pointer(document, str(one.params.get("path") or "")), one.code, dict(one.params))
            for one in self._found
        )
        return told


def all_of(wrong: Mapping[int, InvalidError]) -> InvalidError:
    """The first of the errors of a list of documents, by their index, with the faults of all."""
    index = min(wrong)
    told = InvalidError(wrong[index].code, **{**wrong[index].params, "document": index})
    told.faults = tuple(
        Fault(f"/documents/{number}{one.pointer}", one.code, {**one.params, "document": number})
        for number, error in sorted(wrong.items())
        for one in error.faults or (Fault("", error.code, error.params),)
    )[:MOST]
    return told


def _within(path: str, outer: str) -> bool:
    return path == outer or (path.startswith(outer) and path[len(outer)] in ".[")


def pointer(document: object, path: str) -> str:
    """The JSON pointer of a path. Keys may hold dots: what is in the document is found by its own keys."""
    steps: list[str] = []
    rest = path
    while rest:
        step, rest, document = _step(document, rest)
        steps.append(step)
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def _step(document: object, path: str) -> tuple[str, str, object]:
    """The next key or index, what is left of the path, and what is there."""
    keys: Sequence[object] = list(document) if isinstance(document, dict) else ()
    known = [key for key in keys if isinstance(key, str)]
    fitting = [key for key in known if key and _within(path, key)]
    found = _STEP.search(path)
    step = max(fitting, key=len) if fitting else found[0] if found else path
    rest = path[len(step) :] if fitting else path[found.end() :].lstrip("]") if found else ""
    inner: object = None
    if isinstance(document, dict):
        inner = document.get(step)
    elif isinstance(document, list) and step.isdecimal() and int(step) < len(document):
        inner = document[int(step)]
    return step, rest.removeprefix("."), inner

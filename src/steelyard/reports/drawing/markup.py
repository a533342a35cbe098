"""HTML and SVG elements as text. Whatever is not markup already is escaped, so that nothing slips through."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeAlias

#: Control characters and the ones that turn the direction of writing: shown as a box, never obeyed.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_VOID = frozenset({"br", "hr", "img", "input", "link", "meta", "wbr"})
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class Markup(str):
    """Text that is markup; only this module's functions make it."""

    __slots__ = ()

    def __html__(self) -> str:
        """Itself: what tells template engines that it is escaped already."""
        return self


Child: TypeAlias = "str | int | Iterable[Child] | None"
Attribute: TypeAlias = "str | int | float | bool | None"


def escape(value: object) -> Markup:
    """The text of a value, safe between tags and inside a quoted attribute."""
    if isinstance(value, Markup):
        return value
    return Markup(_UNSAFE.sub("\ufffd", str(value)).translate(_ESCAPES))


def join(children: Iterable[Child], separator: str = "") -> Markup:
    """The children one after the other, escaped where they are plain text."""
    return Markup(separator.join(_render(child) for child in children))


def el(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. `cls` is `class`, an underscore in a name is a hyphen; None and False leave it out."""
    parts = [name]
    for key, value in attributes.items():
        if value is None or value is False:
            continue
        key = "class" if key == "cls" else key.rstrip("_").replace("_", "-")
        parts.append(key if value is True else f'{key}="{_attribute(value)}"')
    opening = f"<{' '.join(parts)}>"
    return Markup(opening if name in _VOID else f"{opening}{join(children)}</{name}>")


def raw(name: str, text: str, /, **attributes: Attribute) -> Markup:
    """`style` or `script`, whose text is our own and not escaped. Raises ValueError if it could end early."""
    if name not in ("style", "script") or "</" in text:
        raise ValueError(f"not raw text of <{name}>")
    return el(name, Markup(text), **attributes)


def number(value: float) -> str:
    """A coordinate: one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _attribute(value: Attribute) -> str:
    return number(value) if isinstance(value, float) else escape(value)


def _render(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, str | int):
        return escape(child)
    return join(child)

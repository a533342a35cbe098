"""Text on a terminal: what others wrote is shown, not obeyed, and a Chinese character takes two columns."""

from __future__ import annotations

import re
import unicodedata

# C0 but tab and line feed, DEL, C1, and the marks that turn the direction of what follows.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out, e.g. `\x1b`."""
    return UNSAFE.sub(_written, text)


def one_line(value: object) -> str:
    """A value for a cell or a sentence: visible, on one line."""
    return visible(str(value)).replace("\n", "\\n").replace("\t", " ")


def columns(text: str) -> int:
    """How many columns of a terminal a line takes: two for a wide character, none for a combining one."""
    return sum(map(_width, text))


def cut(text: str, width: int) -> str:
    """The line in at most `width` columns; an ellipsis stands for what was cut off."""
    if columns(text) <= width:
        return text
    kept, used = "", 0
    for character in text:
        used += _width(character)
        if used > width - 1:
            break
        kept += character
    return f"{kept}…" if width > 0 else ""


def padded(text: str, width: int, right: bool = False) -> str:
    """The line in exactly `width` columns, cut or filled up; `right`: set to the right."""
    shown = cut(text, width)
    fill = " " * (width - columns(shown))
    return fill + shown if right else shown + fill


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _written(matched: re.Match[str]) -> str:
    number = ord(matched[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"

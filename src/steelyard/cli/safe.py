"""What others wrote is shown, not obeyed: control characters and changes of direction become visible."""

from __future__ import annotations

import codecs
import json
import re
from typing import Any

# C0 but tab and line feed, DEL, C1, and the marks that turn the direction of what follows.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def visible(text: str) -> str:
    r"""The text with what a terminal would obey written out, e.g. `\x1b`."""
    return _UNSAFE.sub(_written, text)


def one_line(value: object) -> str:
    """A value for a cell or a sentence: visible, on one line."""
    return visible(str(value)).replace("\n", "\\n").replace("\t", " ")


def _written(matched: re.Match[str]) -> str:
    number = ord(matched[0])
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def to_json(data: Any) -> str:
    """JSON for people and programs: real letters, but nothing that a terminal obeys."""
    return _escaped(json.dumps(data, ensure_ascii=False, indent=2))


def to_line(data: Any) -> str:
    """The same on one line."""
    return _escaped(json.dumps(data, ensure_ascii=False))


def _escaped(text: str) -> str:
    return _UNSAFE.sub(lambda matched: f"\\u{ord(matched[0]):04x}", text)


class LogText:
    """Bytes of a log as visible text, however they are cut. A lone carriage return starts a new line."""

    def __init__(self) -> None:
        self._decode = codecs.getincrementaldecoder("utf-8")("replace")
        self._returned = False

    def feed(self, data: bytes, final: bool = False) -> str:
        """The text of the next bytes."""
        text = self._decode.decode(data, final)
        if self._returned:
            text = "\r" + text
        self._returned = text.endswith("\r") and not final
        if self._returned:
            text = text[:-1]
        return visible(text.replace("\r\n", "\n").replace("\r", "\n"))

"""What others wrote is shown, not obeyed: control characters and changes of direction become visible."""

from __future__ import annotations

import codecs
import json
from typing import Any

from steelyard.locale.plain import UNSAFE, one_line, visible

__all__ = ["LogText", "one_line", "to_json", "to_line", "visible"]

def to_json(data: Any) -> str:
    """JSON for people and programs: real letters, but nothing that a terminal obeys."""
    return _escaped(json.dumps(data, ensure_ascii=False, indent=2))


def to_line(data: Any) -> str:
    """The same on one line."""
    return _escaped(json.dumps(data, ensure_ascii=False))


def _escaped(text: str) -> str:
    return UNSAFE.sub(lambda matched: f"\\u{ord(matched[0]):04x}", text)


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

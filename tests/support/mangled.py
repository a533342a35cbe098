"""Texts of vendor tools gone wrong, in ways that happen: cut, shifted, localised, coloured, doubled.

Each function gives `Mangled` texts of one output. What a way may do to a reading differs: what cuts and drops
must never change a figure, colours and line ends must change nothing at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

#: A line's last word that carries no mark of its end: a bare number, an id. Cut within, it reads as another.
_OPEN = re.compile(r"(?![0-9.]+(?:[A-Za-z]{1,3}|%)$)[A-Za-z0-9._:/-]*[0-9][A-Za-z0-9._:/-]*")
_WORD = re.compile(r"[A-Za-z]{2,}")
_NUMBER = re.compile(r"[0-9]{2,}")
_WIDE = str.maketrans("0123456789", "０１２３４５６７８９")
_COLOUR = "\x1b[1;32m"
_PLAIN = "\x1b[0m"


@dataclass(frozen=True)
class Mangled:
    """A text, and how it was made of another."""

    how: str
    text: str

    def __str__(self) -> str:
        return self.how


def _spread(count: int, most: int | None) -> range:
    return range(0, count, 1 if most is None else max(1, -(-count // most)))


def cut_at_lines(text: str) -> Iterator[Mangled]:
    """Ended after each line, and after each line but for its line end."""
    end = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        end += len(line)
        yield Mangled(f"ended after line {number}", text[:end])
        yield Mangled(f"ended after line {number} without its end", text[: end - 1])


def cut_at_characters(text: str, most: int | None = None) -> Iterator[Mangled]:
    """Ended after any character; at most so many of them, spread over the text."""
    for end in _spread(len(text), most):
        yield Mangled(f"ended after character {end}", text[:end])


def _closed_length(line: str) -> int:
    """How much of a line may be cut: all, or what stands before a last word without a mark of its end."""
    last = line.rstrip().rpartition(" ")[2]
    return len(line.rstrip()) - len(last) if _OPEN.fullmatch(last) else len(line.rstrip())


def cut_within_lines(text: str, most: int | None = None) -> Iterator[Mangled]:
    """One line loses its end, and the text goes on in the next line.

    At most so many cuts, spread over the text, and one in each line's last number, the likeliest to mislead.
    """
    lines = text.split("\n")
    places = [
        (at, end)
        for at, line in enumerate(lines)
        for end in range(len(line) - len(line.lstrip()) + 1, _closed_length(line))
    ]
    chosen = {places[place] for place in _spread(len(places), most)}
    for at, line in enumerate(lines):
        numbers = [m.start() + 1 for m in _NUMBER.finditer(line) if m.start() + 1 < _closed_length(line)]
        chosen.update((at, end) for end in numbers[-1:])
    for at, end in sorted(chosen):
        changed = [*lines[:at], lines[at][:end], *lines[at + 1 :]]
        yield Mangled(f"line {at + 1} cut after {end}", "\n".join(changed))


def without_lines(text: str) -> Iterator[Mangled]:
    """Each line lost once."""
    lines = text.splitlines(keepends=True)
    for at in range(len(lines)):
        yield Mangled(f"without line {at + 1}", "".join(lines[:at] + lines[at + 1 :]))


def shifted(text: str) -> Iterator[Mangled]:
    """A cell lost, and a cell too many, at every place of every line that has cells."""
    lines = text.split("\n")
    for at, line in enumerate(lines):
        for mark in (",", "|"):
            cells = line.split(mark)
            if len(cells) < 2:
                continue
            for place in range(len(cells)):
                less = mark.join(cells[:place] + cells[place + 1 :])
                more = mark.join([*cells[:place], " 7 ", *cells[place:]])
                for what, changed in (("lost", less), ("too many", more)):
                    whole = "\n".join([*lines[:at], changed, *lines[at + 1 :]])
                    yield Mangled(f"line {at + 1}: cell {place + 1} {what}", whole)


def localised(text: str) -> Iterator[Mangled]:
    """All words in another script; the words of one line; digits of another script."""
    yield Mangled("words translated", _WORD.sub("显存", text))
    yield Mangled("digits of another script", text.translate(_WIDE))
    lines = text.split("\n")
    for at, line in enumerate(lines):
        for how, changed in (
            ("words translated", _WORD.sub("显存", line)),
            ("a decimal comma", re.sub(r"(?<=[0-9])\.(?=[0-9])", ",", line)),
            ("digits of another script", line.translate(_WIDE)),
        ):
            if changed != line:
                yield Mangled(f"line {at + 1}: {how}", "\n".join([*lines[:at], changed, *lines[at + 1 :]]))


def dressed(text: str) -> Iterator[Mangled]:
    """The same text as other terminals and systems hand it on: nothing may come of it."""
    yield Mangled("line ends of Windows", text.replace("\n", "\r\n"))
    yield Mangled("byte-order mark", "\ufeff" + text)
    yield Mangled("coloured lines", "".join(f"{_COLOUR}{line}{_PLAIN}\n" for line in text.split("\n")[:-1]))
    yield Mangled("coloured numbers", re.sub(r"([0-9]+)", rf"{_COLOUR}\1{_PLAIN}", text))
    yield Mangled("a zero byte in every line", text.replace("\n", "\x00\n"))
    yield Mangled("a zero byte in every number", re.sub(r"([0-9])(?=[0-9])", "\\1\x00", text))

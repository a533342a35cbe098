"""What the parsers share: figures with units as integers, unknown values, bus addresses, columns, sections.

A value that a tool says it does not know is None. Text that can't be the value of its place (a shifted or
cut cell) raises UnreadableError: its row is then incomplete. Whoever reads a row catches it. Nothing else
is raised, and every function takes time linear in its text.

Vendors that print MB, GB or KB for device memory mean binary units: 1 MB is taken as 1 MiB.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.devices.output import Line, Output

#: What vendors print for "not known" or "not supported here", in lower case. An empty cell is one of them.
UNKNOWN_TOKENS = frozenset({
    "", "-", "--", "n/a", "[n/a]", "na", "none", "null", "unknown", "unavailable", "[unavailable]",
    "not supported", "[not supported]", "[not found]", "[requested functionality has been deprecated]",
    "unknown error", "[unknown error]", "err!", "[gpu is lost]", "[gpu requires reset]",
    "[insufficient permissions]",
})  # fmt: skip
#: Of them, those by which a tool says that it tried to read and could not.
FAILED_TOKENS = frozenset({"[unknown error]", "unknown error", "err!", "[gpu is lost]"})
RESET_TOKENS = frozenset({"[gpu requires reset]"})

_FIGURE = re.compile(r"([+-]?[0-9]{1,18})(?:\.([0-9]{1,18}))?[ \t]*([A-Za-z%°℃µ/]{0,16})")
_PCI = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?(?![0-9A-Za-z:])")
_MIB_IN_BYTES = 1024 * 1024
_BYTES = {
    "b": 1, "byte": 1, "bytes": 1,
    "k": 1024, "kb": 1024, "kib": 1024, "kbytes": 1024,
    "m": _MIB_IN_BYTES, "mb": _MIB_IN_BYTES, "mib": _MIB_IN_BYTES, "mbytes": _MIB_IN_BYTES,
    "g": 1024**3, "gb": 1024**3, "gib": 1024**3,
    "t": 1024**4, "tb": 1024**4, "tib": 1024**4,
}  # fmt: skip
_WATTS = {"mw": 1, "w": 1000, "watts": 1000, "kw": 1_000_000}
_DEGREES = frozenset({"c", "°c", "℃", "celsius", "deg", "°"})
_JSON_TRIES = 16  # lines that may begin with a bracket and yet be no JSON
_DEPTH = 16  # sections within sections; deeper indentation is no output of a tool


class UnreadableError(ValueError):
    """Text that can't be a value of its place. The row it stands in is incomplete."""


def known(text: str | bool | None) -> str | None:
    """The text without spaces around it; None where the tool says that it does not know."""
    if text is None or isinstance(text, bool):
        return None
    plain = text.strip()
    return None if plain.lower() in UNKNOWN_TOKENS else plain


def failed(text: str | None) -> bool:
    """Whether a value says that reading it failed (and not that there is nothing to read)."""
    return text is not None and text.strip().lower() in FAILED_TOKENS


def asks_for_reset(text: str | None) -> bool:
    """Whether a value says that the device must be reset."""
    return text is not None and text.strip().lower() in RESET_TOKENS


def _figure(text: str) -> tuple[int, str]:
    """(thousandths, unit in lower case) of a figure. Raises UnreadableError."""
    match = _FIGURE.fullmatch(text.strip()[:80])
    if match is None:
        raise UnreadableError(text[:80])
    digits, fraction = match[1], (match[2] or "")[:3].ljust(3, "0")
    sign = -1 if digits.startswith("-") else 1
    return sign * (abs(int(digits)) * 1000 + int(fraction)), match[3].lower()


def whole(text: str | None) -> int | None:
    """A number without unit, not negative (an index, a count). Raises UnreadableError."""
    plain = known(text)
    if plain is None:
        return None
    if not (plain.isascii() and plain.isdigit()) or len(plain) > 18:
        raise UnreadableError(plain[:80])
    return int(plain)


def mib(text: str | None, unit: str = "MiB", *, required: bool = False) -> int | None:
    """Memory in MiB, rounded down. `unit` is that of a bare number, which is unreadable if `required`."""
    plain = known(text)
    if plain is None:
        return None
    thousandths, written = _figure(plain)
    if required and not written:
        raise UnreadableError(plain[:80])
    factor = _BYTES.get(written or unit.lower())
    if factor is None or thousandths < 0:
        raise UnreadableError(plain[:80])
    return thousandths * factor // (1000 * _MIB_IN_BYTES)


def milliwatts(text: str | None, unit: str = "W") -> int | None:
    """Power in milliwatts. `unit` is that of a bare number. Raises UnreadableError."""
    plain = known(text)
    if plain is None:
        return None
    thousandths, written = _figure(plain)
    factor = _WATTS.get(written or unit.lower())
    if factor is None or thousandths < 0:
        raise UnreadableError(plain[:80])
    return thousandths * factor // 1000


def percent(text: str | None) -> int | None:
    """A share of 0 to 100, rounded down. Raises UnreadableError, also for another unit or a figure above."""
    plain = known(text)
    if plain is None:
        return None
    thousandths, written = _figure(plain)
    if written not in ("", "%") or not 0 <= thousandths <= 100_000:
        raise UnreadableError(plain[:80])
    return thousandths // 1000


def celsius(text: str | None) -> int | None:
    """A temperature in whole degrees Celsius, rounded down. Raises UnreadableError."""
    plain = known(text)
    if plain is None:
        return None
    thousandths, written = _figure(plain)
    if (written and written not in _DEGREES) or not -273_000 <= thousandths <= 1_000_000:
        raise UnreadableError(plain[:80])
    return thousandths // 1000


def used_of_total(text: str | None, unit: str = "MiB") -> tuple[int | None, int | None]:
    """Two amounts of memory around a slash, in MiB: what is used, then the total. Raises UnreadableError."""
    plain = known(text)
    if plain is None:
        return None, None
    used, slash, total = plain.partition("/")
    if not slash:
        raise UnreadableError(plain[:80])
    return mib(used, unit), mib(total, unit)


def pci(text: str | None) -> str | None:
    """A bus address as `dddd:bb:dd.f` in lower case; text after it is dropped. Raises UnreadableError.

    A missing domain is 0 and a missing function 0. A domain above ffff keeps its digits, as the kernel does.
    """
    plain = known(text)
    if plain is None:
        return None
    match = _PCI.match(plain)
    if match is None:
        raise UnreadableError(plain[:80])
    domain = int(match[1] or "0", 16)
    return f"{domain:04x}:{match[2].lower()}:{match[3].lower()}.{match[4] or '0'}"


# -- columns -----------------------------------------------------------------------------------------------


def csv_cells(line: str) -> list[str]:
    """The cells of one line of csv, spaces around them taken off. A line is never continued on the next."""
    try:
        rows = list(csv.reader([line], skipinitialspace=True))
    except csv.Error:
        return []
    return [cell.strip() for cell in rows[0]] if rows else []


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a csv header: its name in lower case, and the unit that stands behind it in brackets."""

    name: str
    unit: str | None


def csv_columns(line: str) -> list[Column]:
    """The columns of a header such as `index, memory.total [MiB]` or `GPU Power (W)`."""
    columns = []
    for cell in csv_cells(line):
        name, unit = cell, None
        for opening, closing in (("[", "]"), ("(", ")")):
            if cell.endswith(closing) and opening in cell:
                name, _, unit = cell[:-1].rpartition(opening)
                break
        columns.append(Column(name.strip().lower(), unit.strip() if unit else None))
    return columns


def box_cells(line: str) -> list[str]:
    """The cells between the bars of a drawn table's line; none where it is a rule or not of the table."""
    plain = line.strip()
    if len(plain) < 2 or plain[0] not in "|│" or plain[-1] not in "|│":
        return []
    return [cell.strip() for cell in plain[1:-1].replace("│", "|").split("|")]


def is_rule(line: str) -> bool:
    """Whether a line of a drawn table holds no text, only what it is drawn with."""
    plain = line.strip()
    return bool(plain) and not plain.strip("+-=|├┼┤┌┐└┘┬┴─│╞╪╡═║╠╬╣╔╗╚╝╦╩ ")


# -- sections ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Entry:
    """`key : value` with the sections it stands in (outermost first, its own key last).

    `value` is None for a line that opens a section.
    """

    path: tuple[str, ...]
    value: str | None
    line: Line

    @property
    def key(self) -> str:
        """The key itself."""
        return self.path[-1]


def split_entry(text: str) -> tuple[str, str | None]:
    """Key and value of a line, around the first colon that a space or the line's end follows.

    Colons within a value or a bus address are none. No such colon, or nothing behind it: value None.
    """
    at = text.find(":")
    while at >= 0:
        if at + 1 == len(text) or text[at + 1] in " \t":
            return text[:at].strip(), text[at + 1 :].strip() or None
        at = text.find(":", at + 1)
    return text.strip(), None


def entries(lines: Iterable[Line]) -> list[Entry]:
    """Indented key-value text: each line with the sections that its indentation puts it in.

    A line without an end is left out: its value may be cut.
    """
    found: list[Entry] = []
    open_sections: list[tuple[int, str]] = []
    for line in lines:
        if not line.whole:
            continue
        text = line.text.expandtabs(8)
        indent = len(text) - len(text.lstrip())
        while open_sections and open_sections[-1][0] >= indent:
            open_sections.pop()
        key, value = split_entry(text)
        found.append(Entry((*(name for _, name in open_sections), key), value, line))
        if len(open_sections) < _DEPTH:
            open_sections.append((indent, key))
    return found


def value_of(found: Sequence[Entry], *path: str) -> str | None:
    """The value of the first entry whose path ends in `path`, letter case ignored; else None."""
    wanted = tuple(name.lower() for name in path)
    for entry in found:
        if len(entry.path) >= len(wanted) and tuple(n.lower() for n in entry.path[-len(wanted) :]) == wanted:
            return entry.value
    return None


# -- JSON --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Json:
    """A JSON value found in an output: numbers are text as written, so that none becomes a float."""

    value: object
    before: tuple[Line, ...]  # lines printed ahead of it
    after: tuple[Line, ...]


def _text(value: object) -> str:
    return str(value)


#: Stands for the values of a key that an object has twice: which of them holds is not known.
TWICE = ("twice",)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        found[key] = TWICE if key in found else value
    return found


_DECODER = json.JSONDecoder(
    parse_float=_text, parse_int=_text, parse_constant=_text, object_pairs_hook=_object
)


def json_in(output: Output) -> Json | None:
    """The first JSON object or array that starts a line and ends one; None where none is whole."""
    offset, tries = 0, 0
    for number, text in enumerate(output.text.split("\n"), 1):
        if text.lstrip()[:1] in ("{", "["):
            tries += 1
            found = _decoded(output.text, offset + len(text) - len(text.lstrip()))
            if found is not None:
                value, lines = found
                before = tuple(line for line in output.lines if line.number < number)
                after = tuple(line for line in output.lines if line.number > number + lines)
                return Json(value, before, after)
            if tries == _JSON_TRIES:
                return None
        offset += len(text) + 1
    return None


def _decoded(text: str, start: int) -> tuple[object, int] | None:
    """The value that begins at `start`, and how many line ends it spans."""
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        return None
    line_end = text.find("\n", end)
    rest = text[end:] if line_end < 0 else text[end:line_end]
    return None if rest.strip() else (value, text.count("\n", start, end))


def at(value: object, *path: str) -> object:
    """What stands under the keys of nested objects, spaces around keys ignored; None where one is missing."""
    for name in path:
        if not isinstance(value, dict):
            return None
        value = next((v for k, v in value.items() if isinstance(k, str) and k.strip() == name), None)
    return value


def text_at(value: object, *path: str) -> str | None:
    """The text (or number as text) under the keys; None where there is none or something else is."""
    found = at(value, *path)
    return found if isinstance(found, str) else None

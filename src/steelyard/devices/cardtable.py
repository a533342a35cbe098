"""Cards of a drawn table, read by what the table's own heading says stands where.

Releases of a tool move columns; the heading moves with them. A heading cell that is not known (another
release, another language, another tool) makes the table unreadable: nothing is then told from position
alone. A card is whole when each of its lines is closed on both sides, has as many cells as the heading and
each cell is of the form that its heading says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from steelyard.devices.csvrows import Cell, Signs, Value, no_signs, number, on_or_off, with_values
from steelyard.devices.output import Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import (
    UnreadableError,
    box_cells,
    celsius,
    is_rule,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    whole,
)

#: Forms of cells that several vendors draw alike. The names of their groups are those of `READERS`.
INDEX = r"(?P<index>[0-9]{1,4})"
MODEL = r"(?P<model>[A-Za-z][^|]*?)"
PCI = r"(?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
UTILISATION = r"(?P<utilisation>[0-9]{1,3} ?%|N/A)"
TEMPERATURE = r"(?P<temperature>-?[0-9]{1,3} ?C|N/A)"
_WATTS = r"[0-9]{1,6}(?:\.[0-9]+)? ?W|N/?A"
POWER = rf"(?P<power>{_WATTS})"
POWER_AND_LIMIT = rf"{POWER} ?/ ?(?P<power_limit>{_WATTS})"
USED_AND_TOTAL = (
    r"(?:(?P<memory_used>[0-9]{1,9}(?: ?MiB)?) ?/ *(?P<memory>[0-9]{1,9} ?MiB)|N/A(?: ?/ ?N/A)?)"
)

#: Group of a form → how its text is read. A group that is not among them is a further fact, kept as text.
READERS: Mapping[str, Cell] = {
    "index": number,
    "host_index": number,
    "module": number,
    "pci": pci,
    "utilisation": percent,
    "temperature": celsius,
    "power": milliwatts,
    "power_limit": milliwatts,
    "memory_used": mib,
    "memory": mib,
    "ecc_uncorrected": whole,
    "mig": on_or_off,
    "partitionable": lambda text: (known(text) or "").lower() or None,
}
_IDENTITY = ("index", "module", "pci", "model")
_CELL_MAX = 120
#: How the list of processes begins, in English or Chinese.
_END = re.compile(r"[|│]?\s*(?:process|processes|\u8fdb\u7a0b)\b", re.IGNORECASE)

Forms: TypeAlias = Mapping[str, re.Pattern[str]]
Row: TypeAlias = tuple[re.Pattern[str], ...]


@dataclass(slots=True)
class Card:
    """The lines of one card, what was read of them, and whether all of it was."""

    lines: list[Line]
    values: dict[str, str] = field(default_factory=dict)
    rows: int = 0  # that were read
    sound: bool = True  # no line among them that is none of a card
    whole: bool = False

    @property
    def text(self) -> str:
        """Its lines as one."""
        return "\n".join(line.text.strip() for line in self.lines)


@dataclass(frozen=True, slots=True)
class Table:
    """What a table's heading says: one row of forms for each line of a card, and where its cards begin."""

    rows: tuple[Row, ...]
    start: int  # index among the lines


def forms(written: Mapping[str, str]) -> Forms:
    """Heading cells (lower case, one space between words) → the form of the cells below them."""
    return {name: re.compile(form) for name, form in written.items()}


def heading(lines: Sequence[Line], first: frozenset[str], known_forms: Forms, rows: int) -> Table | None:
    """The first heading in `lines`, which begins as `first` says, if each cell of its rows is known."""
    for at, line in enumerate(lines):
        names = _names(line)
        if not names or names[0] not in first:
            continue
        named = [_names(following) for following in lines[at : at + rows]]
        if len(named) < rows or any(not row or any(name not in known_forms for name in row) for row in named):
            return None
        return Table(tuple(tuple(known_forms[name] for name in row) for row in named), at + rows)
    return None


def _names(line: Line) -> list[str]:
    return [] if is_rule(line.text) else [" ".join(cell.lower().split()) for cell in box_cells(line.text)]


def fit(cells: Sequence[str], row: Row) -> dict[str, str] | None:
    """What cells say where they are those of this row; None where they are not."""
    if len(cells) != len(row):
        return None
    found: dict[str, str] = {}
    for cell, form in zip(cells, row, strict=True):
        match = form.fullmatch(cell) if len(cell) <= _CELL_MAX else None
        if match is None:
            return None
        found.update({key: value for key, value in match.groupdict().items() if value is not None})
    return found


Split: TypeAlias = Callable[[str], list[str]]


def cards(lines: Iterable[Line], rows: Sequence[Row], split: Split = box_cells) -> Iterator[Card]:
    """The cards of lines below a heading, the broken ones too; ends where a table of processes begins."""
    card: Card | None = None
    for line in lines:
        if _END.match(line.text):
            break
        if is_rule(line.text):
            if card is not None:
                yield _closed(card, rows)
            card = None
            continue
        cells = split(line.text) if line.whole else []
        opening = fit(cells, rows[0])
        if card is not None and (opening is not None or card.rows == len(rows)):
            yield _closed(card, rows)
            card = None
        if card is None:
            card = Card([])
        _add(card, line, opening if not card.lines else _next(card, cells, rows))
    if card is not None:
        yield _closed(card, rows)


def _next(card: Card, cells: Sequence[str], rows: Sequence[Row]) -> dict[str, str] | None:
    return fit(cells, rows[card.rows]) if card.sound and card.rows else None


def _add(card: Card, line: Line, found: dict[str, str] | None) -> None:
    card.lines.append(line)
    if found is None:
        card.sound = False
        return
    card.values.update(found)
    card.rows += 1


def _closed(card: Card, rows: Sequence[Row]) -> Card:
    card.whole = card.sound and card.rows == len(rows)
    return card


def read_cards(output: Output, base: Reading, table: Table, signs: Signs = no_signs) -> Parsed:
    """Every card below the heading as a reading; a card whose first line was not read is a problem alone."""
    return readings_of(cards(output.lines[table.start :], table.rows), base, signs)


def readings_of(found: Iterable[Card], base: Reading, signs: Signs = no_signs) -> Parsed:
    """Cards as readings. Raises nothing."""
    readings, problems = [], []
    for card in found:
        line = kept(card.text)
        broken = replace(base, line=line)
        told = _told(card) if card.whole else None
        if told is not None:
            reading = with_values(broken, told)
            readings.append(judged(reading, signs(reading)))
            continue
        problems.append(Problem(ProblemCode.ROW_INCOMPLETE, line, card.lines[0].number))
        if card.rows:
            identity = {name: card.values[name] for name in _IDENTITY if name in card.values}
            who = [(name, _value(name, text)) for name, text in identity.items()]
            readings.append(incomplete(with_values(broken, who), card.text))
    return Parsed(readings=tuple(readings), problems=tuple(problems))


def _told(card: Card) -> list[tuple[str, Value]] | None:
    try:
        return [(name, _value(name, text)) for name, text in card.values.items()]
    except UnreadableError:
        return None


def _value(name: str, text: str) -> Value:
    return READERS.get(name, known)(text)

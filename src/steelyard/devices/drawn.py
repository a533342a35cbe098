"""Tables drawn with bars and rules: groups of rows between two rules, each group one card (or one process).

Tools draw a rule between cards, so a card's rows are whole only where a rule closes them: a table that was
cut never gives half a card as a card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.devices.output import Line
from steelyard.devices.reading import kept
from steelyard.devices.text import box_cells, is_rule

_ROWS_MAX = 64  # rows between two rules; more is no table of cards
_DRAWN = "+|│├┌└╔╠╞"  # what a line of a drawn table begins with


@dataclass(frozen=True, slots=True)
class Group:
    """The rows between two rules: their cells, the lines they stood in, and whether a rule closed them."""

    rows: tuple[tuple[str, ...], ...]
    lines: tuple[Line, ...]
    closed: bool
    double: bool  # closed by a rule drawn with `=`

    @property
    def text(self) -> str:
        """The lines as they are kept with a reading."""
        return kept("\n".join(line.text for line in self.lines))

    def has(self, *words: str) -> bool:
        """Whether all the words stand somewhere in the group's cells, letter case ignored."""
        text = " ".join(cell for row in self.rows for cell in row).lower()
        return all(word.lower() in text for word in words)


def groups(lines: Iterable[Line]) -> list[Group]:
    """The groups of all tables in the lines, in order. A row that was cut stays, as a row without cells.

    Lines that are not drawn (texts between tables) close nothing and are passed over.
    """
    found: list[Group] = []
    rows: list[tuple[str, ...]] = []
    members: list[Line] = []
    for line in lines:
        if line.text.lstrip()[:1] not in _DRAWN:
            continue
        if is_rule(line.text) and line.whole:
            if members:
                found.append(Group(tuple(rows), tuple(members), True, "=" in line.text))
            rows, members = [], []
        elif len(members) < _ROWS_MAX:
            rows.append(tuple(box_cells(line.text)) if line.whole else ())
            members.append(line)
    if members:
        found.append(Group(tuple(rows), tuple(members), False, False))
    return found

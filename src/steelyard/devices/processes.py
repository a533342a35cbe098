"""Processes that a table lists below its cards: number of the card, process, name, device memory.

The list is whole when a rule closes it and each of its lines is one of a process, or the sentence that there
is none. Otherwise nothing is told: a process that is not listed would look like an idle card.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from steelyard.devices.output import Line
from steelyard.devices.reading import Parsed
from steelyard.devices.text import box_cells, is_rule
from steelyard.model.health import DeviceHolder

_BEGINS = re.compile(r"\|?\s*process(?:es)?:", re.IGNORECASE)
_PART = r"(?:N/A|[0-9]{1,4})"
_ROWS = (
    re.compile(r"([0-9]{1,4}) +([0-9]{1,9}) +(\S.{0,200}?) +([0-9]{1,9})(?: ?MiB)?"),
    re.compile(
        rf"([0-9]{{1,4}}) +{_PART} +{_PART} +([0-9]{{1,9}}) +(?:C|G|C\+G)"
        r" +(\S.{0,200}?) +([0-9]{1,9}) ?MiB"
    ),
)
_OPEN_ROW = re.compile(r"([0-9]{1,4}) +([0-9]{1,9}) +(\S.{0,200}?) +([0-9]{1,9})MiB")
_NONE = re.compile(r"no (?:running )?process(?:es)? (?:was )?found", re.IGNORECASE)
_ROWS_MAX = 10_000
_CELL_MAX = 240

Listed = Mapping[int, tuple[DeviceHolder, ...]]


def listed_processes(lines: Sequence[Line], *, framed: bool = True) -> Listed | None:
    """Card number → its processes; None where no list of them is whole.

    `framed`: bars close each line on both sides, and a double rule stands below the heading.
    """
    begins = next((at for at, line in enumerate(lines) if _BEGINS.match(line.text.strip())), None)
    if begins is None:
        return None
    rows = iter(lines[begins + 1 : begins + 1 + _ROWS_MAX])
    if not any(is_rule(line.text) and ("=" if framed else "+") in line.text for line in rows):
        return None
    found: dict[int, list[DeviceHolder]] = {}
    for read, line in enumerate(rows):
        if is_rule(line.text):
            whole = read > 0 and line.whole
            return {card: tuple(holders) for card, holders in found.items()} if whole else None
        holder = _holder(line, framed)
        if holder is None:
            return None
        if isinstance(holder, tuple):
            found.setdefault(holder[0], []).append(holder[1])
    return None


def _holder(line: Line, framed: bool) -> tuple[int, DeviceHolder] | str | None:
    """The card and process of a line; text where it says that there is none; None where it can't be read."""
    cells = box_cells(line.text) if framed else [line.text.strip()]
    if not line.whole or len(cells) != 1 or len(cells[0]) > _CELL_MAX:
        return None
    if _NONE.fullmatch(cells[0]):
        return cells[0]
    for form in _ROWS if framed else (_OPEN_ROW,):
        row = form.fullmatch(cells[0])
        if row is not None:
            return int(row[1]), DeviceHolder(int(row[2]), row[3], int(row[4]))
    return None


def with_processes(parsed: Parsed, lines: Sequence[Line], *, framed: bool = True) -> Parsed:
    """The whole readings of cards with the processes that are listed for them, where that list is whole."""
    listed = listed_processes(lines, framed=framed)
    if listed is None or not parsed.readings:
        return parsed
    readings = tuple(
        replace(one, holders=listed.get(one.index, ())) if one.complete and one.index is not None else one
        for one in parsed.readings
    )
    return replace(parsed, readings=readings, processes=True)

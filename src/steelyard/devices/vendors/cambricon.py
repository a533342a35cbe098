"""cnmon of Cambricon: its table (4.x and 5.x), the JSON that `-j` writes to a file, and `info` as text.

Source: the catalogue (cambricon-mlu). The table's `Ecc-Error` does not say which errors it counts: above 0 it
is a warning, and no count of uncorrectable ones. The JSON's types were not seen in a captured file: numbers
and texts are both read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.devices.csvrows import (
    Cell,
    celsius_written,
    mib_written,
    number,
    percent_written,
    watts_written,
)
from steelyard.devices.drawn import Group, groups
from steelyard.devices.jsonrows import Field, read_objects
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.signs import unconfirmed
from steelyard.devices.text import (
    Entry,
    UnreadableError,
    at,
    celsius,
    entries,
    json_in,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    used_of_total,
    value_of,
    whole,
)
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource

FAMILY = "cambricon-mlu"
TOOL = "cnmon"
TABLE, JSON, TEXT = "table", "info-json", "info-text"

_CELLS = 3
_HEADING_ROWS = 2
_TOOL_VERSION = re.compile(r"CNMON (v[0-9][0-9.]{0,20})")
_DRIVER = re.compile(r"Driver (v[0-9][0-9.]{0,20})")
_CARD = re.compile(r"([0-9]{1,4}) +(/|[0-9]{1,3}) +(\S.{0,60}?) +(v[0-9][0-9A-Za-z.]{0,20}|N/A)")
_INITED = re.compile(r"(On|Off) +(v[0-9][0-9A-Za-z.]{0,20}|N/A)")
_BLOCK = re.compile(r"Card ([0-9]{1,4})")


def _base(layout: str, line: str) -> Reading:
    return Reading(family=FAMILY, tool=TOOL, layout=layout, complete=True, line=line)


# -- the table ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sections:
    version: str | None
    driver: str | None
    cards: tuple[Group, ...]
    processes: tuple[Group, ...] | None


def _is_table(output: Output) -> bool:
    return any("CNMON v" in line.text for line in output.lines[:20])


def _sections(parts: Sequence[Group]) -> _Sections:
    version = driver = None
    cards: list[Group] = []
    headed = False
    for place, group in enumerate(parts):
        text = " ".join(cell for row in group.rows for cell in row)[:400]
        found = _TOOL_VERSION.search(text)
        if found is not None:
            version, named = found[1], _DRIVER.search(text)
            driver = named[1] if named else None
        elif group.has("Card", "Memory-Usage"):
            headed = True
            if len(group.rows) > _HEADING_ROWS:
                cards.append(group)  # the rule below the heading is lost, and a card stands in it
        elif group.has("Processes:"):
            return _Sections(version, driver, tuple(cards), tuple(parts[place + 1 :]))
        elif headed:
            cards.append(group)
    return _Sections(version, driver, tuple(cards), None)


def _parse_table(output: Output) -> Parsed:
    sections = _sections(groups(output.lines))
    holders = _holders(sections.processes)
    readings, problems = [], []
    for group in sections.cards:
        found = _card(group, sections.driver)
        if found is None or not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, group.text, group.lines[0].number))
        if found is None:
            continue
        if holders is not None and found.complete and found.parent is None:
            found = replace(found, holders=tuple(holders.get(found.index, ())))
        readings.append(found)
    listed = holders is not None
    listed = listed and bool(readings)
    return Parsed(tuple(readings), tuple(problems), sections.version, sections.driver, processes=listed)


def _card(group: Group, driver: str | None) -> Reading | None:
    """The card of two rows; None where not even its number was read."""
    first = group.rows[0]
    named = _CARD.fullmatch(first[0]) if len(first) == _CELLS else None
    if named is None:
        return None
    base = replace(_base(TABLE, group.text), index=int(named[1]), model=named[3], driver=driver)
    if named[2] != "/":
        base = replace(base, parent=named[1], partition=f"vf{named[2]}")
    try:
        if not group.closed or len(group.rows) != 2 or len(group.rows[1]) != _CELLS:
            return incomplete(base, group.text)
        return _figures(replace(base, firmware=known(named[4])), group)
    except UnreadableError:
        return incomplete(base, group.text)


def _figures(base: Reading, group: Group) -> Reading:
    """The figures of a card whose rows are all there. Raises UnreadableError."""
    (_, where, load), (live, memory, modes) = group.rows
    inited = _INITED.fullmatch(where)
    loads, words = load.split(), live.split()
    draw, slash, cap = " ".join(words[2:]).partition("/")
    if len(loads) != 2 or not slash:
        raise UnreadableError(group.text[:80])
    used, total = used_of_total(memory)
    errors = whole(loads[1])
    reading = replace(
        base,
        pci=None if inited else pci(where),
        driver=known(inited[2]) if inited else base.driver,
        utilisation=percent(loads[0]),
        temperature=celsius(words[1]),
        power=milliwatts(draw),
        power_limit=milliwatts(cap),
        memory=total,
        memory_used=used,
        other={} if errors is None else {"ecc_errors": errors},
    )
    return judged(reading, _signs(errors, inited[1] if inited else None, modes))


def _signs(errors: int | None, inited: str | None, modes: str) -> Iterable[Sign]:
    if errors:
        yield unconfirmed(SignCode.ECC_UNCORRECTED, SignSource.ECC, f"Ecc-Error {errors}", count=errors)
    if inited == "Off":
        yield Sign(SignCode.READING_UNKNOWN, Health.UNKNOWN, SignSource.TOOL, "Inited Off")
    if modes.endswith("Prohibited"):
        yield Sign(SignCode.COMPUTE_OFF, Health.UNHEALTHY, SignSource.TOOL, "Compute-Mode Prohibited")


def _holders(parts: Sequence[Group] | None) -> dict[int | None, list[DeviceHolder]] | None:
    """Card → the processes listed for it; None where the list is not there or not whole."""
    if not parts or not all(group.closed for group in parts):
        return None
    found: dict[int | None, list[DeviceHolder]] = {}
    for row in (row for group in parts for row in group.rows):
        words = row[0].split() if len(row) == 1 else []
        if words[:2] == ["No", "running"]:
            continue
        if len(words) < 5 or not words[0].isdigit() or not words[2].isdigit():
            return None  # whose process it is can't be told, so none of them is told
        try:
            held = mib(" ".join(words[-2:]))
        except UnreadableError:
            held = None
        name = " ".join(words[3:-2])[:120]
        found.setdefault(int(words[0][:6]), []).append(DeviceHolder(int(words[2][:10]), name or None, held))
    return found


# -- info --------------------------------------------------------------------------------------------------

_FIELDS = (
    Field("index", ("CardNum",), number),
    Field("model", ("ProductName",), known, needed=False),
    Field("uuid", ("UUID",), known, needed=False),
    Field("memory", ("PhysicalMemUsage", "Total"), mib),
    Field("memory_used", ("PhysicalMemUsage", "Used"), mib, needed=False),
    Field("temperature", ("Temperature", "Chip"), celsius, needed=False),
    Field("utilisation", ("Utilization", "MLUAverage"), percent, needed=False),
)


def _cards(output: Output) -> list[object] | None:
    found = json_in(output)
    cards = None if found is None else at(found.value, "CnmonInfo")
    return cards if isinstance(cards, list) else None


def _parse_json(output: Output) -> Parsed:
    return read_objects(_cards(output) or [], _base(JSON, ""), _FIELDS)


def _is_text(output: Output) -> bool:
    heads = any(_BLOCK.fullmatch(line.text) for line in output.lines)
    return heads and any("Product Name" in line.text or "MLU Average" in line.text for line in output.lines)


def _parse_text(output: Output) -> Parsed:
    """One block a card, its keys by the section they stand in."""
    blocks: dict[int, list[Entry]] = {}
    for entry in entries(output.lines):
        head = _BLOCK.fullmatch(entry.path[0])
        if head is not None:
            blocks.setdefault(int(head[1]), []).append(entry)
    cut = [line for line in output.lines if not line.whole]
    readings, problems = [], []
    for index, found in blocks.items():
        base = replace(_base(TEXT, kept("\n".join(entry.line.text.strip() for entry in found))), index=index)
        last = bool(cut) and index == list(blocks)[-1]
        try:
            reading = incomplete(base, base.line) if last else _told(base, found)
        except UnreadableError:
            reading = incomplete(base, base.line)
        readings.append(reading)
        if not reading.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, base.line, found[0].line.number))
    return Parsed(tuple(readings), tuple(problems))


def _told(base: Reading, found: Sequence[Entry]) -> Reading:
    """What a card's keys say. Raises UnreadableError."""
    return replace(
        base,
        model=known(value_of(found, "Product Name")),
        driver=known(value_of(found, "Driver")),
        firmware=known(value_of(found, "Firmware")),
        uuid=known(value_of(found, "UUID")),
        memory=_figure(mib_written, value_of(found, "Physical Memory Usage", "Total")),
        memory_used=_figure(mib_written, value_of(found, "Physical Memory Usage", "Used")),
        utilisation=_figure(percent_written, value_of(found, "Utilization", "MLU Average")),
        temperature=_figure(celsius_written, value_of(found, "Temperature", "Chip")),
        power=_figure(watts_written, value_of(found, "Power", "Usage")),
    )


def _figure(read: Cell, text: str | None) -> int | None:
    """A figure with its unit: without it, its last digits may have been cut off with it."""
    found = None if text is None else read(text)
    return found if isinstance(found, int) else None


LAYOUTS = (
    Layout(FAMILY, TOOL, TABLE, _is_table, _parse_table),
    Layout(FAMILY, TOOL, JSON, lambda output: _cards(output) is not None, _parse_json),
    Layout(FAMILY, TOOL, TEXT, _is_text, _parse_text),
)

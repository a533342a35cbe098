"""npu-smi's lists and queries: `info -m`, `-l`, and `-t board | usages | health | hccs`.

Health and link queries do not print whose they are: their reading names no device, and whoever asked binds
it. HBM capacity in `usages` may differ from that of `info` (both are what the tool says).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import (
    Entry,
    UnreadableError,
    entries,
    known,
    mib,
    pci,
    percent,
    split_entry,
    value_of,
    whole,
)
from steelyard.devices.vendors.ascend_words import FAMILY, TOOL, health_sign
from steelyard.model.health import Health, Sign, SignCode, SignSource

MAP, CARDS, BOARD, USAGES, HEALTH, HCCS = "map", "cards", "board", "usages", "health", "hccs"

_GAP = re.compile(r"\t+|  +")
_MANAGEMENT = frozenset({"mcu"})  # chips that run no work
_MAP_COLUMNS = ("NPU ID", "Chip ID", "Chip Logic ID", "Chip Name")
_LINKS = {"ok": True, "nok": False}

_Reader: TypeAlias = Callable[[Reading, Sequence[Entry]], Reading]


def _says(*keys: str) -> Callable[[Output], bool]:
    """Recognises a key-value output by keys that begin lines of it."""

    def recognises(output: Output) -> bool:
        begun = {split_entry(line.text)[0].lower() for line in output.lines[:200]}
        return all(key.lower() in begun for key in keys)

    return recognises


def _base(layout: str, lines: Sequence[Line]) -> Reading:
    line = kept("\n".join(line.text.strip() for line in lines))
    return Reading(family=FAMILY, tool=TOOL, layout=layout, complete=True, line=line)


def _needed(found: Sequence[Entry], key: str) -> str:
    value = value_of(found, key)
    if value is None:
        raise UnreadableError(key)
    return value


def _read(layout: str, lines: Sequence[Line], read: _Reader) -> Parsed:
    """The one reading of these lines; incomplete where a key is missing or not of its form."""
    base = _base(layout, lines)
    try:
        return Parsed(readings=(read(base, entries(lines)),))
    except UnreadableError:
        problem = Problem(ProblemCode.ROW_INCOMPLETE, base.line, lines[0].number)
        return Parsed(readings=(incomplete(base, base.line),), problems=(problem,))


def _joined(parts: Sequence[Parsed]) -> Parsed:
    readings = tuple(reading for part in parts for reading in part.readings)
    return Parsed(readings, tuple(problem for part in parts for problem in part.problems))


# -- info -m ---------------------------------------------------------------------------------------------


def _is_map(output: Output) -> bool:
    return any(all(name in line.text for name in _MAP_COLUMNS) for line in output.lines[:5])


def _parse_map(output: Output) -> Parsed:
    """NPU, chip and logic id of each chip that runs work, by the columns that the heading names.

    A chip is the one of `info` by card (`module`) and chip, not by number: logic ids close up behind a lost
    card, numbers of `info` don't.
    """
    columns: list[str] = []
    readings: list[Reading] = []
    problems: list[Problem] = []
    for line in output.lines:
        cells = [cell.strip() for cell in _GAP.split(line.text.strip())]
        if "Chip Logic ID" in cells:
            columns = cells
            continue
        found = _mapped(line, dict(zip(columns, cells, strict=False)), len(columns) == len(cells))
        if isinstance(found, Problem):
            problems.append(found)
        elif found is not None:
            readings.append(found)
    times = Counter(reading.module for reading in readings)
    alone = [replace(one, index=one.module) if times[one.module] == 1 else one for one in readings]
    return Parsed(tuple(alone), tuple(problems))


def _mapped(line: Line, row: dict[str, str], fits: bool) -> Reading | Problem | None:
    try:
        if not (line.whole and fits):
            raise UnreadableError(line.text[:80])
        if row.get("Chip Name", "").lower() in _MANAGEMENT:
            return None
        npu, chip = whole(row.get("NPU ID")), whole(row.get("Chip ID"))
        if npu is None or chip is None:
            raise UnreadableError(line.text[:80])
        logic = whole(row.get("Chip Logic ID"))
        return replace(
            _base(MAP, [line]),
            module=npu,
            index=logic,
            in_container=logic,
            host_index=whole(row.get("Chip Phy-ID")),
            model=known(row.get("Chip Name")),
            other={"chip": chip},
        )
    except UnreadableError:
        return Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number)


# -- info -l ---------------------------------------------------------------------------------------------


def _parse_cards(output: Output) -> Parsed:
    """The cards by their blocks; an id below 0 stands for a card that is not there."""
    total: int | None = None
    blocks: list[list[Line]] = []
    for line in output.lines:
        key, value = split_entry(line.text)
        if key == "NPU ID" and line.whole:
            blocks.append([line])
        elif blocks:
            blocks[-1].append(line)
        elif key == "Total Count" and line.whole and value is not None and value.isdigit():
            total = int(value[:6])
    parts = [_read(CARDS, block, _card) for block in blocks if not _value(block[0]).startswith("-")]
    return replace(_joined(parts), attached=total)


def _value(line: Line) -> str:
    return split_entry(line.text)[1] or ""


def _card(base: Reading, found: Sequence[Entry]) -> Reading:
    chips, card = whole(_needed(found, "Chip Count")), _number(found, "NPU ID")
    return replace(
        base,
        index=card if chips == 1 else None,
        module=card,
        model=known(value_of(found, "Product Name")),
        serial=known(value_of(found, "Serial Number")),
        other={} if chips is None else {"chips": chips},
    )


def _number(found: Sequence[Entry], key: str) -> int:
    number = whole(_needed(found, key))
    if number is None:
        raise UnreadableError(key)
    return number


# -- info -t -----------------------------------------------------------------------------------------------


def _board(base: Reading, found: Sequence[Entry]) -> Reading:
    """Addresses and versions. `Chip Count` is printed last: with it the output is whole."""
    card = _number(found, "NPU ID")
    other: dict[str, str | int] = {"chips": _number(found, "Chip Count")}
    slot = whole(value_of(found, "Slot ID"))
    if slot is not None:
        other["slot"] = slot
    for name, key in (("pci_vendor", "PCI Vendor ID"), ("pci_device", "PCI Device ID")):
        value = known(value_of(found, key))
        if value is not None:
            other[name] = value.lower()[:20]
    return replace(
        base,
        index=card if other["chips"] == 1 else None,
        module=card,
        pci=pci(_needed(found, "PCIe Bus Info")),
        serial=known(value_of(found, "Serial Number")),
        driver=known(value_of(found, "Software Version")),
        firmware=known(value_of(found, "Firmware Version")),
        other=other,
    )


def _parse_usages(output: Output) -> Parsed:
    """One block a chip; its id is printed last. What the card says of itself stands ahead of the blocks."""
    head = [line for line in output.lines if split_entry(line.text)[0] == "NPU ID"][:1]
    blocks: list[list[Line]] = [[]]
    for line in output.lines:
        blocks[-1].append(line)
        if split_entry(line.text)[0] == "Chip ID" and line.whole:
            blocks.append([])
    whole_blocks = [block for block in blocks if block]
    parts = [_read(USAGES, block if head[0] in block else [*head, *block], _usages) for block in whole_blocks]
    return _joined(parts)


def _usages(base: Reading, found: Sequence[Entry]) -> Reading:
    if any(entry.key.startswith("HBM ") for entry in found):
        _needed(found, "HBM Capacity(MB)")  # lost, the other memory would be taken for it
    hbm = mib(value_of(found, "HBM Capacity(MB)"))
    ddr = mib(value_of(found, "DDR Capacity(MB)"))
    in_hbm = bool(hbm)
    rate = value_of(found, "HBM Usage Rate(%)" if in_hbm else "DDR Usage Rate(%)")
    other: dict[str, str | int] = {"chip": _number(found, "Chip ID")}
    if in_hbm and ddr:
        other["ddr"] = ddr
    return replace(
        base,
        module=_number(found, "NPU ID"),
        memory=hbm if in_hbm else ddr,
        memory_utilisation=percent(rate),
        utilisation=percent(_needed(found, "Aicore Usage Rate(%)")),
        other=other,
    )


def _health(base: Reading, found: Sequence[Entry]) -> Reading:
    """`Error Information` is printed last and may be continued; with it the codes are whole."""
    _needed(found, "Error Information")
    codes = known(value_of(found, "Error Code"))
    return judged(base, health_sign(_needed(found, "Health Status"), codes))


def _hccs(base: Reading, found: Sequence[Entry]) -> Reading:
    """Not OK: the card is cut off from its peers; `info` may still call it healthy."""
    word = _needed(found, "hccs health status")
    up = _LINKS.get(word.lower())
    if up is None:
        raise UnreadableError(word[:80])
    links = whole(value_of(found, "hccs link num in used"))
    reading = replace(base, other={} if links is None else {"links": links})
    sign = Sign(SignCode.LINK_DOWN, Health.DEGRADED, SignSource.LINK, f"hccs {word}"[:80])
    return judged(reading, [] if up else [sign])


def _query(layout: str, read: _Reader, *keys: str) -> Layout:
    def parse(output: Output) -> Parsed:
        return _read(layout, output.lines, read)

    return Layout(FAMILY, TOOL, layout, _says(*keys), parse)


QUERIES = (
    Layout(FAMILY, TOOL, MAP, _is_map, _parse_map),
    Layout(FAMILY, TOOL, CARDS, _says("Total Count", "NPU ID"), _parse_cards),
    _query(BOARD, _board, "NPU ID", "PCIe Bus Info"),
    Layout(FAMILY, TOOL, USAGES, _says("NPU ID", "Aicore Usage Rate(%)"), _parse_usages),
    _query(HEALTH, _health, "Health Status"),
    _query(HCCS, _hccs, "hccs health status"),
)

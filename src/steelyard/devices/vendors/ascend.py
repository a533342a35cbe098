"""npu-smi of Huawei Ascend: the table of `info`; its queries by key and value are in ascend_queries.py.

A chip is two rows. Five forms of the table are known: with a Device column (20.2), with huge pages (21),
with HBM (22 on), with a Phy-ID column and two dies a card (910C), and without a number beside the chip.
A card (NPU) of several chips is not listed itself: its chips share its number, which is their `module`, and
have the number of the Device or Phy-ID column. Without such a column a chip's number is its card's.
Source: the catalogue (ascend), fixtures of public projects. MB is taken as MiB.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from steelyard.devices.drawn import Group, groups
from steelyard.devices.failing import failure_layout
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged
from steelyard.devices.text import UnreadableError, celsius, mib, milliwatts, pci, percent, whole
from steelyard.devices.vendors.ascend_queries import QUERIES
from steelyard.devices.vendors.ascend_words import FAILURE_TEXTS, FAMILY, TOOL, health_sign
from steelyard.model.health import DeviceHolder

INFO = "info"

_VERSION = re.compile(r"npu-smi +(\S{1,40}) +Version: +(\S{1,40})")
_VIRTUAL = re.compile(r"(.{1,40}?)(vir[0-9]{2}\S{0,20})")
_NO_PROCESS = re.compile(r"No running processes found in NPU ([0-9]{1,4})")
_CELLS = 3
_PROCESS_CELLS = 4
_Holders: TypeAlias = dict[tuple[int | None, int | None], list[DeviceHolder]]


@dataclass(frozen=True, slots=True)
class _Head:
    """What the heading says of the rows below it."""

    version: str | None = None
    number: bool = False  # a Device or Phy-ID stands beside the chip
    pages: bool = False  # huge pages stand behind the temperature
    memories: tuple[str, ...] = ()  # the memories of the second row, in order


@dataclass(frozen=True, slots=True)
class _Sections:
    """The parts of one output."""

    head: _Head
    chips: tuple[Group, ...]
    processes: tuple[Group, ...] | None  # None: no list of them


def _recognises(output: Output) -> bool:
    lines = output.lines[:12]
    return any("npu-smi" in line.text for line in lines) and any("AICore(%)" in line.text for line in lines)


def _sections(parts: Sequence[Group]) -> _Sections:
    head = _Head()
    chips: list[Group] = []
    for place, group in enumerate(parts):
        text = " ".join(cell for row in group.rows for cell in row)[:400]
        version = _VERSION.search(text)
        if version is not None:
            head = replace(head, version=version[1])
        elif group.has("AICore(%)", "Bus-Id"):
            memories = tuple(re.findall(r"(Memory|HBM)-Usage", text))
            head = _Head(head.version, "Device" in text or "Phy-ID" in text, "Hugepages" in text, memories)
        elif group.has("Process id"):
            return _Sections(head, tuple(chips), tuple(parts[place + 1 :]))
        elif head.memories:
            chips.append(group)
    return _Sections(head, tuple(chips), None)


def _parse(output: Output) -> Parsed:
    sections = _sections(groups(output.lines))
    readings: list[Reading] = []
    problems: list[Problem] = []
    for group in sections.chips:
        found = _chip(group, sections.head)
        if found is not None:
            readings.append(found)
        if found is None or not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, group.text, group.lines[0].number))
    holders = _processes(sections.processes or ())
    if holders is not None:
        readings = _held(readings, holders)
    version = sections.head.version
    listed = bool(readings) and all(one.holders is not None for one in readings if one.complete)
    return Parsed(tuple(readings), tuple(problems), tool_version=version, processes=listed)


def _chip(group: Group, head: _Head) -> Reading | None:
    """The chip of two rows; None where not even its NPU's number was read."""
    first = group.rows[0]
    if len(first) != _CELLS or not first[0]:
        return None
    number, _, name = first[0].partition(" ")
    try:
        index = whole(number)
        if index is None or not name.strip():
            return None
        base = Reading(family=FAMILY, tool=TOOL, layout=INFO, complete=True, line=group.text)
        base = replace(base, module=index, index=None if head.number else index)
        model, template = _named(name.strip())
        base = replace(base, model=model, partition=template)
    except UnreadableError:
        return None
    try:
        if not group.closed or len(group.rows) != 2 or len(group.rows[1]) != _CELLS:
            return incomplete(base, group.text)
        return _figures(base, group, head)
    except UnreadableError:
        return incomplete(base, group.text)


def _named(name: str) -> tuple[str, str | None]:
    """Model and, of a virtual device, the template that the name carries."""
    virtual = _VIRTUAL.fullmatch(name[:80])
    return (name[:80], None) if virtual is None else (virtual[1].strip(), virtual[2])


def _figures(base: Reading, group: Group, head: _Head) -> Reading:
    """The figures of a chip whose rows are all there. Raises UnreadableError."""
    (_, health, live), (chips, bus, load) = group.rows
    words, numbers, loads = _words(live), chips.split(), _words(load)
    if len(words) != 2 + 3 * head.pages or len(loads) != 1 + 3 * len(head.memories):
        raise UnreadableError(group.text[:80])
    if len(numbers) != 1 + head.number:
        raise UnreadableError(chips[:80])
    memory, used, other = _memory(loads[1:], head.memories)
    chip, device = whole(numbers[0]), whole(numbers[-1])
    address = pci(bus)
    if chip is None or device is None or address is None:
        raise UnreadableError(group.text[:80])
    reading = replace(
        base,
        index=device if head.number else base.index,
        host_index=device if head.number else None,
        pci=address,
        power=milliwatts(words[0]),
        temperature=celsius(words[1]),
        utilisation=percent(loads[0]),
        memory=memory,
        memory_used=used,
        other={"chip": chip, **other},
    )
    return judged(reading, health_sign(health))


def _words(cell: str) -> list[str]:
    """The words of a cell; the slash between used and total may have spaces around it or none."""
    return cell.replace("/", " / ").split()


def _memory(words: Sequence[str], names: Sequence[str]) -> tuple[int | None, int | None, dict[str, int]]:
    """(total, used) of the memory that work runs in, and the card's other memory. Raises UnreadableError."""
    amounts: dict[str, tuple[int | None, int | None]] = {}
    for place, name in enumerate(names):
        used, slash, total = words[3 * place : 3 * place + 3]
        if slash != "/":
            raise UnreadableError(" ".join(words)[:80])
        amounts[name] = mib(total), mib(used)
    main = amounts.get("HBM")
    if main is None or (main[0] == 0 and amounts.get("Memory", (0, 0))[0]):
        return *amounts["Memory"], {}
    other = amounts.get("Memory", (None, None))
    if not other[0]:
        return *main, {}
    extra = {"ddr": other[0]} if other[1] is None else {"ddr": other[0], "ddr_used": other[1]}
    return *main, extra


def _held(readings: Sequence[Reading], holders: _Holders) -> list[Reading]:
    """The chips with the processes listed for them; an NPU that the list says nothing of has no answer."""
    said = {npu for npu, _ in holders}
    return [
        replace(reading, holders=tuple(holders.get((reading.module, _chip_of(reading)), ())))
        if reading.complete and reading.module in said
        else reading
        for reading in readings
    ]


def _chip_of(reading: Reading) -> int | None:
    chip = reading.other.get("chip")
    return chip if isinstance(chip, int) else None


def _processes(parts: Sequence[Group]) -> _Holders | None:
    """(NPU, chip) → its processes; (NPU, None) where it is said to have none. None: the list is not whole."""
    if not parts or not all(group.closed for group in parts):
        return None
    found: _Holders = {}
    for row in (row for group in parts for row in group.rows):
        nothing = _NO_PROCESS.fullmatch(row[0]) if len(row) == 1 else None
        if nothing is not None:
            found.setdefault((int(nothing[1]), None), [])
            continue
        numbers = row[0].split() if len(row) == _PROCESS_CELLS else []
        try:
            if len(numbers) != 2:
                return None
            holder = DeviceHolder(whole(row[1]), row[2][:120] or None, mib(row[3]))
            found.setdefault((whole(numbers[0]), whole(numbers[1])), []).append(holder)
        except UnreadableError:
            return None
    return found


LAYOUTS = (
    Layout(FAMILY, TOOL, INFO, _recognises, _parse),
    *QUERIES,
    failure_layout(FAMILY, TOOL, FAILURE_TEXTS),
)

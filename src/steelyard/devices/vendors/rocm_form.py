"""The forms that AMD's rocm-smi and Hygon's tools made from it share: JSON by `card<N>`, and lines by device.

Keys differ by release and vendor; what a reading tells has the keys under which it was seen, the best first.
One that is missing or says N/A gives way to the next. Sources: the catalogue (amd, hygon-dcu).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from steelyard.devices.csvrows import Value, with_values
from steelyard.devices.output import Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, kept
from steelyard.devices.text import (
    UnreadableError,
    celsius,
    json_in,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    split_entry,
    text_at,
)

#: (what is told, the vendor's key, how its text is read)
Key: TypeAlias = tuple[str, str, Callable[[str | None], Value]]

_CARD = re.compile(r"card([0-9]{1,4})")
_LINE = re.compile(r"[A-Z]{3}\[([0-9]{1,4})\]")
_IDENTITY = frozenset({"uuid", "serial", "pci", "model"})
_DUMPED = 4_000  # characters of a card's object before it is cut to a kept line
_CARDS_MAX = 4096


def _bytes(text: str | None) -> int | None:
    return mib(text, "B")


def _name(text: str | None) -> str | None:
    plain = known(text)
    return None if plain is None else plain[:120]


def keys(sensors: Sequence[str]) -> tuple[Key, ...]:
    """The keys of a vendor. `sensors`: the sensor whose temperature is told, the best first."""
    return (
        ("model", "Card Series", _name),
        ("model", "Card series", _name),
        ("uuid", "Unique ID", _name),
        ("serial", "Serial Number", _name),
        ("pci", "PCI Bus", pci),
        ("memory", "VRAM Total Memory (B)", _bytes),
        ("memory", "vram Total Memory (MiB)", mib),
        ("memory", "vram Total Memory (B)", _bytes),
        ("memory_used", "VRAM Total Used Memory (B)", _bytes),
        ("memory_used", "vram Total Used Memory (MiB)", mib),
        ("memory_used", "vram Total Used Memory (B)", _bytes),
        ("memory_free", "Available memory size (MiB)", mib),
        *(("utilisation", f"{name} use (%)", percent) for name in ("GPU", "DCU", "HCU")),
        *(("memory_utilisation", f"{name} memory use (%)", percent) for name in ("DCU", "HCU")),
        *(("temperature", f"Temperature (Sensor {sensor}) (C)", celsius) for sensor in sensors),
        ("power", "Average Graphics Package Power (W)", milliwatts),
        ("power", "Current Socket Graphics Package Power (W)", milliwatts),
        ("power_limit", "Max Graphics Package Power (W)", milliwatts),
        ("architecture", "GFX Version", _name),
    )


def read_card(base: Reading, item: object, wanted: Sequence[Key]) -> Reading:
    """A card's object as a reading; incomplete where a key's text can't be its value."""
    values: dict[str, Value] = {}
    bad = "" if isinstance(item, dict) else "no object"
    for name, key, read in wanted:
        if values.get(name) is not None:
            continue
        try:
            values[name] = read(text_at(item, key))
        except UnreadableError:
            bad = bad or key
    if not bad:
        return with_values(base, values.items())
    certain = [(name, value) for name, value in values.items() if name in _IDENTITY]
    return incomplete(with_values(base, certain), f"{bad}: {base.line}")


def is_json(output: Output) -> bool:
    """Whether an object stands in the text whose keys are cards."""
    found = json_in(output)
    return found is not None and isinstance(found.value, dict) and any(map(_CARD.fullmatch, found.value))


def parse_json(output: Output, base: Reading, wanted: Sequence[Key]) -> Parsed:
    """The cards of the object. Lines printed ahead of it are kept as what the tool complained of."""
    found = json_in(output)
    if found is None or not isinstance(found.value, dict):
        return Parsed()
    driver = known(text_at(found.value, "system", "Driver version"))
    problems = [Problem(ProblemCode.TOOL_ERROR, kept(line.text), line.number) for line in found.before]
    readings = []
    for name, item in found.value.items():
        card = _CARD.fullmatch(name)
        if card is None:
            continue
        line = kept(json.dumps({name: item}, ensure_ascii=False)[:_DUMPED])
        reading = read_card(replace(base, index=int(card[1]), line=line, driver=driver), item, wanted)
        readings.append(reading)
        if not reading.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, line))
    return Parsed(tuple(readings), tuple(problems[:_CARDS_MAX]), driver=driver)


def is_lines(output: Output) -> bool:
    """Whether lines begin with a device's number in brackets."""
    return any(_LINE.match(line.text) for line in output.lines)


def parse_lines(output: Output, base: Reading, wanted: Sequence[Key]) -> Parsed:
    """`HCU[0] : key : value` lines, gathered by device. A line without an end says nothing."""
    told: dict[int, dict[str, str]] = {}
    lines: dict[int, list[str]] = {}
    for line in output.lines:
        begun = _LINE.match(line.text)
        if begun is None or not line.whole:
            continue
        index = int(begun[1])
        if index not in told and len(told) == _CARDS_MAX:
            continue
        _, rest = split_entry(line.text)
        key, value = split_entry(rest or "")
        told.setdefault(index, {})[key] = value or ""
        lines.setdefault(index, []).append(line.text)
    readings = []
    problems = []
    for index, item in told.items():
        line_kept = kept("\n".join(lines[index]))
        reading = read_card(replace(base, index=index, line=line_kept), item, wanted)
        readings.append(reading)
        if not reading.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, line_kept))
    return Parsed(tuple(readings), tuple(problems))

"""rocm-smi (JSON, its concise table, lines) and amd-smi (`static --json`) of AMD.

Source: the catalogue (amd), fixtures of public projects. rocm-smi prints memory in bytes, amd-smi in MB that
are MiB. amd-smi's JSON is a list up to ROCm 6 and an object with `gpu_data` from 7 on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace

from steelyard.devices.failing import FailureText, failure_layout
from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, kept
from steelyard.devices.text import (
    UnreadableError,
    at,
    celsius,
    json_in,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    text_at,
    whole,
)
from steelyard.devices.vendors import hygon
from steelyard.devices.vendors.rocm_form import Key, is_json, is_lines, keys, parse_json, parse_lines
from steelyard.model.health import SignCode

FAMILY = "amd"
ROCM, AMD = "rocm-smi", "amd-smi"
JSON, LINES, CONCISE, STATIC = "json", "lines", "concise", "static-json"

_KEYS = keys(("edge", "junction"))
#: Columns of the concise table → words of a row that they take, where that is not one.
_WORDS = {"IDs": 2, "Partitions": 3}
_HEAD_WORDS = frozenset({"Temp", "VRAM%", "GPU%"})
_FAILURES = (FailureText("Driver not initialized", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),)


def _of_amd(recognises: Callable[[Output], bool]) -> Callable[[Output], bool]:
    return lambda output: recognises(output) and not hygon.is_own(output)


def _base(tool: str, layout: str) -> Reading:
    return Reading(family=FAMILY, tool=tool, layout=layout, complete=True, line="")


# -- the concise table -------------------------------------------------------------------------------------


def _head(output: Output) -> tuple[int, list[str]] | None:
    """The place of the heading among the lines, and its columns."""
    for place, line in enumerate(output.lines[:40]):
        words = line.text.split()
        if words[:1] in (["GPU"], ["Device"]) and set(words) >= _HEAD_WORDS:
            return place, words
    return None


def _parse_concise(output: Output) -> Parsed:
    head = _head(output)
    if head is None:
        return Parsed()
    readings: list[Reading] = []
    problems: list[Problem] = []
    for line in output.lines[head[0] + 1 :]:
        if not line.text[:1].isdigit():
            continue
        found = _concise(line, head[1])
        readings += [found] if found is not None else []
        if found is None or not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number))
    return Parsed(tuple(readings), tuple(problems))


def _concise(line: Line, columns: Sequence[str]) -> Reading | None:
    """A row by its heading's columns; None where not even its number was read."""
    words = line.text.split()
    cells: dict[str, str] = {}
    for column in columns:
        count = _WORDS.get(column, 1)
        cells[column], words = " ".join(words[:count]), words[count:]
    base = replace(_base(ROCM, CONCISE), line=kept(line.text))
    try:
        index = whole(cells[columns[0]])
        if index is None:
            return None
        base = replace(base, index=index)
    except UnreadableError:
        return None
    if not line.whole or words or not cells[columns[-1]]:
        return incomplete(base, line.text)
    try:
        return replace(
            base,
            temperature=celsius(cells["Temp"]),
            power=milliwatts(cells.get("AvgPwr", cells.get("Power"))),
            power_limit=milliwatts(cells.get("PwrCap")),
            memory_utilisation=_share(cells["VRAM%"]),
            utilisation=_share(cells["GPU%"]),
            other=_partitions(cells.get("Partitions", "")),
        )
    except UnreadableError:
        return incomplete(base, line.text)


def _share(text: str) -> int | None:
    """A share with its sign: without it, its last digits may have been cut off with it."""
    if known(text) is not None and not text.endswith("%"):
        raise UnreadableError(text[:80])
    return percent(text)


def _partitions(text: str) -> dict[str, str | int]:
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 3:
        return {}
    names = (("memory_partition", known(parts[0])), ("compute_partition", known(parts[1])))
    return {name: value for name, value in names if value is not None}


# -- amd-smi -----------------------------------------------------------------------------------------------


def _static_items(output: Output) -> list[object] | None:
    found = json_in(output)
    if found is None:
        return None
    items = found.value.get("gpu_data") if isinstance(found.value, dict) else found.value
    if not isinstance(items, list) or not any(at(item, "gpu") is not None for item in items):
        return None
    return items


def _parse_static(output: Output) -> Parsed:
    readings: list[Reading] = []
    problems: list[Problem] = []
    for item in _static_items(output) or []:
        line = kept(json.dumps(item, ensure_ascii=False)[:4_000])
        found = _static(replace(_base(AMD, STATIC), line=line), item)
        readings += [found] if found is not None else []
        if found is None or not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, line))
    return Parsed(tuple(readings), tuple(problems))


def _static(base: Reading, item: object) -> Reading | None:
    """A card's object; None where not even its number was read."""
    try:
        index = whole(text_at(item, "gpu"))
    except UnreadableError:
        return None
    if index is None:
        return None
    base = replace(base, index=index)
    try:
        base = replace(base, pci=pci(text_at(item, "bus", "bdf")))
        return replace(
            base,
            model=known(text_at(item, "asic", "market_name")),
            serial=known(text_at(item, "asic", "asic_serial")),
            memory=_size(at(item, "vram", "size")),
            driver=_driver(at(item, "driver")),
        )
    except UnreadableError:
        return incomplete(base, base.line)


def _size(size: object) -> int | None:
    """`{value, unit}` or a text; a bare number counts MB. Raises UnreadableError."""
    if isinstance(size, dict):
        return mib(text_at(size, "value"), text_at(size, "unit") or "MB")
    if size is not None and not isinstance(size, str):
        raise UnreadableError("vram size")
    return mib(size)


def _driver(driver: object) -> str | None:
    """The version, under any of the keys it was seen under; of a text, its last word."""
    if isinstance(driver, str):
        plain = known(driver)
        return None if plain is None else plain.split()[-1][:80]
    for key in ("version", "VERSION", "driver_version"):
        found = known(text_at(driver, key))
        if found is not None:
            return found[:80]
    return None


def _rocm(
    parse: Callable[[Output, Reading, Sequence[Key]], Parsed], layout: str
) -> Callable[[Output], Parsed]:
    return lambda output: parse(output, _base(ROCM, layout), _KEYS)


LAYOUTS = (
    Layout(FAMILY, ROCM, JSON, _of_amd(is_json), _rocm(parse_json, JSON)),
    Layout(FAMILY, ROCM, LINES, _of_amd(is_lines), _rocm(parse_lines, LINES)),
    Layout(FAMILY, ROCM, CONCISE, lambda output: _head(output) is not None, _parse_concise),
    failure_layout(FAMILY, ROCM, _FAILURES),
    Layout(FAMILY, AMD, STATIC, lambda output: _static_items(output) is not None, _parse_static),
    failure_layout(FAMILY, AMD, _FAILURES),
)

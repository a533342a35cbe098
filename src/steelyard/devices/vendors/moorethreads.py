"""mthreads-gmi of Moore Threads: its table of three rows a card, and `-q --json`.

The table's rows are not framed: a card's rows are told by their own form, so that rows without a heading are
read as well. Older builds leave keys out of the JSON, and one has a key with a space at its end (catalogue:
moorethreads).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from steelyard.devices.blocks import told
from steelyard.devices.cardtable import INDEX, MODEL, PCI, TEMPERATURE, UTILISATION, cards, fit, readings_of
from steelyard.devices.csvrows import (
    celsius_written,
    mib_written,
    name,
    number,
    percent_written,
    uuid,
    watts_written,
)
from steelyard.devices.failing import FailureText, failure_layout
from steelyard.devices.jsonrows import Field, read_objects
from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.processes import with_processes
from steelyard.devices.reading import Parsed, ProblemCode, Reading
from steelyard.devices.signs import nothing_read
from steelyard.devices.text import at, is_rule, json_in, known, text_at
from steelyard.model.health import SignCode

FAMILY = "moorethreads"
TOOL = "mthreads-gmi"

_AMOUNT = r"[0-9]{1,9}MiB"
_ROWS = tuple(
    tuple(re.compile(form) for form in row)
    for row in (
        (
            rf"{INDEX} +{MODEL}",
            PCI,
            rf"{UTILISATION} +(?:(?P<memory_used>{_AMOUNT})\((?P<memory>{_AMOUNT})\)|N/A)",
        ),
        (
            r"(?P<kind>Physical|Virtual|MPC Parent)(?: +(?:P[0-9]{1,2}|N/A))?",
            r"(?:[0-9]+x|N/A)\((?:[0-9]+x|N/A)\)",
            rf"{TEMPERATURE} +(?P<partitionable>YES|NO|N/A)",
        ),
        ("", r"(?:N/A|[A-Za-z][A-Za-z,-]{1,15}(?: [A-Za-z]{2,15})?)"),
    )
)
_HEADING = frozenset({
    "id name|pcie|%gpu mem",
    "device type|pcie lane width|temp mpc capable",
    "device type perf|pcie lane width|temp mpc capable",
    "|ecc mode",
})
_END = re.compile(r"\s*Processes:")
_COUNT = re.compile(r"[0-9]{1,4}")
_VERSION = re.compile(r"mthreads-gmi: *([0-9][0-9A-Za-z.]*)")
_DRIVER = re.compile(r"Driver Version: *([0-9][0-9A-Za-z.-]*)")

#: Keys of one card in the JSON form; what older builds leave out is not needed.
_FIELDS = (
    Field("index", ("Index",), number),
    Field("model", ("Product Name",), name),
    Field("uuid", ("GPU UUID",), uuid, needed=False),
    Field("memory", ("FB Memory Usage", "Total"), mib_written),
    Field("memory_used", ("FB Memory Usage", "Used"), mib_written),
    Field("utilisation", ("Utilization", "Gpu"), percent_written),
    Field("memory_utilisation", ("Utilization", "Memory"), percent_written, needed=False),
    Field("temperature", ("Temperature", "GPU Current Temp"), celsius_written),
    Field("power", ("Power Readings", "Power Draw"), watts_written, needed=False),
)


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split("|")] if "|" in text else []


def _rows_of(output: Output) -> Iterator[Line]:
    """The lines of the table of cards, without its heading: rules, and what has columns."""
    for line in output.lines:
        if _END.match(line.text):
            return
        cells = _cells(line.text)
        heading = "|".join(" ".join(cell.lower().split()) for cell in cells) in _HEADING
        if is_rule(line.text) or (cells and not heading):
            yield line


def _is_table(output: Output) -> bool:
    return any(fit(_cells(line.text), _ROWS[0]) is not None for line in output.lines)


def _read_table(output: Output) -> Parsed:
    base = Reading(FAMILY, TOOL, "table", True, "")
    parsed = readings_of(cards(_rows_of(output), _ROWS, _cells), base, nothing_read)
    parsed = replace(parsed, readings=tuple(_of_kind(reading) for reading in parsed.readings))
    parsed = with_processes(parsed, output.lines, framed=False)
    return replace(parsed, tool_version=told(output.lines, _VERSION), driver=told(output.lines, _DRIVER))


def _of_kind(reading: Reading) -> Reading:
    """A card that is the parent of parts says so where others say that they are physical."""
    other = {name: value for name, value in reading.other.items() if name != "kind"}
    return replace(reading, other=other, mig=True if reading.other.get("kind") == "MPC Parent" else None)


def _is_json(output: Output) -> bool:
    found = json_in(output)
    return found is not None and isinstance(at(found.value, "GPU"), list)


def _read_json(output: Output) -> Parsed:
    found = json_in(output)
    items = at(found.value, "GPU") if found is not None else None
    if found is None or not isinstance(items, list):
        return Parsed()
    parsed = read_objects(items, Reading(FAMILY, TOOL, "json", True, ""), _FIELDS, nothing_read)
    attached = text_at(found.value, "Attached GPUs") or ""
    return replace(
        parsed,
        driver=known(text_at(found.value, "Driver Version")),
        attached=int(attached) if _COUNT.fullmatch(attached) else None,
    )


_FAILURES = (FailureText("Driver error", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),)

LAYOUTS = (
    Layout(FAMILY, TOOL, "json", _is_json, _read_json),
    Layout(FAMILY, TOOL, "table", _is_table, _read_table),
    failure_layout(FAMILY, TOOL, _FAILURES),
)

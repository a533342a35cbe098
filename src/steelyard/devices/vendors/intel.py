"""xpu-smi 1.x of Intel: `discovery -j`, `discovery --dump`, `dump` of metrics, and the table of `stats`.

A blank cell means that the device does not support the figure, in `dump` and in `stats`. `dump` prints a row
a sample: the last one of a device is what holds. Source: the tool's guide at v1.2 (catalogue: intel-gpu).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from steelyard.devices.cardtable import fit
from steelyard.devices.csvrows import (
    Cell,
    Column,
    Value,
    address,
    mib_written,
    name,
    number,
    read_rows,
    serial,
    uuid,
    with_values,
)
from steelyard.devices.jsonrows import Field, read_objects
from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.signs import ecc_uncorrected, nothing_read
from steelyard.devices.text import (
    UnreadableError,
    at,
    box_cells,
    celsius,
    csv_cells,
    is_rule,
    json_in,
    known,
    mib,
    milliwatts,
    percent,
    whole,
)
from steelyard.model.health import Sign

FAMILY = "intel-gpu"
TOOL = "xpu-smi"

_FIELDS = (
    Field("index", ("device_id",), number),
    Field("model", ("device_name",), name),
    Field("kind", ("device_type",), known),
    Field("pci", ("pci_bdf_address",), address),
    Field("pci_device", ("pci_device_id",), known),
    Field("uuid", ("uuid",), uuid),
)


def _anything(text: str) -> str | None:
    return known(text[:120])


#: Properties of `discovery --dump`. Their numbers moved between releases: 15 is the memory or the socket, 16
#: the channels or the memory, so that both are asked for and the heading says which is which.
_LIST: dict[str, Column] = {
    "Device ID": Column("index", number),
    "Device Name": Column("model", name),
    "Vendor Name": Column("_vendor", _anything),
    "UUID": Column("uuid", uuid),
    "SOC UUID": Column("uuid", uuid),
    "Serial Number": Column("serial", serial),
    "Driver Version": Column("driver", _anything),
    "PCI BDF Address": Column("pci", address),
    "OAM Socket ID": Column("_socket", _anything),
    "Memory Physical Size": Column("memory", mib_written),
    "Number of Memory Channels": Column("_channels", _anything),
}
_NAMED = frozenset({"UUID", "SOC UUID", "PCI BDF Address"})  # one of them must tell which device a row is
_HEADING_LINES = 20  # within which a heading stands; warnings may be printed ahead of it
_SAMPLE = re.compile(r"[0-9]{1,12}\.[0-9]{2}")
_TIME = re.compile(r"[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}")


def _time(text: str) -> str:
    if not _TIME.fullmatch(text):
        raise UnreadableError(text[:80])
    return text


def _sample(read: Callable[[str], int | None]) -> Cell:
    """A figure as samples have it: two digits behind the point, or a blank where there is none."""

    def strict(text: str) -> Value:
        if known(text) is None:
            return None
        if not _SAMPLE.fullmatch(text):
            raise UnreadableError(text[:80])
        return read(text)

    return strict


def _last(read: Cell) -> Cell:
    """The same at a row's end, where a blank may be what was cut off."""

    def strict(text: str) -> Value:
        if not text:
            raise UnreadableError(text)
        return read(text)

    return strict


_METRICS: dict[str, Column] = {
    "Timestamp": Column("_time", _time),
    "DeviceId": Column("index", number),
    "GPU Utilization (%)": Column("utilisation", _sample(percent)),
    "GPU Power (W)": Column("power", _sample(milliwatts)),
    "GPU Core Temperature (Celsius Degree)": Column("temperature", _sample(celsius)),
    "GPU Memory Used (MiB)": Column("memory_used", _sample(mib)),
    "GPU Memory Utilization (%)": Column("memory_utilisation", _sample(percent)),
}

_STATS_HEAD = re.compile(r"(?P<index>[0-9]{1,4})")
_STATS: dict[str, tuple[str, Callable[[str], int | None]]] = {
    "GPU Utilization (%)": ("utilisation", percent),
    "Mem Errors Uncorrectable": ("ecc_uncorrected", whole),
    "GPU Power (W)": ("power", milliwatts),
    "GPU Core Temperature (C)": ("temperature", celsius),
    "GPU Memory Used (MiB)": ("memory_used", mib),
}


def _devices(output: Output) -> list[object] | None:
    found = json_in(output)
    items = at(found.value, "device_list") if found is not None else None
    return items if isinstance(items, list) else None


def _read_json(output: Output) -> Parsed:
    items = _devices(output) or []
    if not items:
        text = output.lines[0]
        return Parsed(problems=(Problem(ProblemCode.NO_DEVICE, kept(text.text), text.number),))
    return read_objects(items, Reading(FAMILY, TOOL, "discovery-json", True, ""), _FIELDS)


def _heading(output: Output, wanted: Callable[[list[str]], bool]) -> int | None:
    """Where the line after a csv heading stands; None where there is no such heading."""
    for at_line, line in enumerate(output.lines[:_HEADING_LINES]):
        if line.whole and wanted(csv_cells(line.text)):
            return at_line + 1
    return None


def _is_list(cells: list[str]) -> bool:
    return cells[:1] == ["Device ID"] and all(cell in _LIST for cell in cells) and bool(_NAMED & set(cells))


def _is_metrics(cells: list[str]) -> bool:
    begins = cells[:2] == ["Timestamp", "DeviceId"] and len(cells) > 2
    return begins and all(cell in _METRICS for cell in cells)


def _read_list(output: Output) -> Parsed:
    start = _heading(output, _is_list) or 1
    columns = [_LIST[cell] for cell in csv_cells(output.lines[start - 1].text)]
    return read_rows(output, Reading(FAMILY, TOOL, "discovery-dump", True, ""), columns, skip=start)


def _read_metrics(output: Output) -> Parsed:
    start = _heading(output, _is_metrics) or 1
    columns = [_METRICS[cell] for cell in csv_cells(output.lines[start - 1].text)]
    columns[-1] = Column(columns[-1].name, _last(columns[-1].read))
    base = Reading(FAMILY, TOOL, "dump", True, "")
    parsed = read_rows(output, base, columns, skip=start)  # a device that supports no figure may be well
    last: dict[int | None, Reading] = {reading.index: reading for reading in parsed.readings}
    return replace(parsed, readings=tuple(last.values()))


def _stats_row(line: Line) -> tuple[str, str] | None:
    cells = box_cells(line.text) if line.whole else []
    return (cells[0], cells[1]) if len(cells) == 2 else None


def _is_stats(output: Output) -> bool:
    rows = [_stats_row(line) for line in output.lines[:_HEADING_LINES]]
    return any(row is not None and row[0] == "Device ID" for row in rows)


def _read_stats(output: Output) -> Parsed:
    groups: list[list[Line]] = []
    for line in output.lines:
        row = _stats_row(line)
        if row is not None and row[0] == "Device ID":
            groups.append([line])
        elif groups and not is_rule(line.text):
            groups[-1].append(line)
    found = [_stats_of(group) for group in groups]
    readings = tuple(one for one in found if isinstance(one, Reading))
    lost = [one for one in found if isinstance(one, Problem)]
    lost += [
        Problem(ProblemCode.ROW_INCOMPLETE, reading.line, group[0].number)
        for group, reading in zip(groups, found, strict=True)
        if isinstance(reading, Reading) and not reading.complete
    ]
    return Parsed(readings=readings, problems=tuple(lost))


def _stats_of(group: list[Line]) -> Reading | Problem:
    text = "\n".join(line.text for line in group)
    head = _stats_row(group[0])
    who = fit([head[1]], (_STATS_HEAD,)) if head is not None else None
    if who is None:
        return Problem(ProblemCode.ROW_INCOMPLETE, kept(text), group[0].number)
    base = Reading(FAMILY, TOOL, "stats", True, kept(text), index=int(who["index"]))
    rows = [_stats_row(line) for line in group]
    told: dict[str, str] = {}
    sound = all(row is not None for row in rows)
    for row in rows:
        if row is not None and row[0] in _STATS:
            sound = sound and row[0] not in told
            told[row[0]] = row[1]
    if not sound or set(told) != set(_STATS):
        return incomplete(base, text)
    try:
        values = [(field, read(told[key])) for key, (field, read) in _STATS.items()]
    except UnreadableError:
        return incomplete(base, text)
    reading = with_values(base, values)
    return judged(reading, _signs(reading))


def _signs(reading: Reading) -> Iterable[Sign]:
    yield from ecc_uncorrected(reading.ecc_uncorrected, f"Mem Errors Uncorrectable {reading.ecc_uncorrected}")
    yield from nothing_read(reading)


LAYOUTS = (
    Layout(FAMILY, TOOL, "discovery-json", lambda output: _devices(output) is not None, _read_json),
    Layout(
        FAMILY, TOOL, "discovery-dump", lambda output: _heading(output, _is_list) is not None, _read_list
    ),
    Layout(FAMILY, TOOL, "dump", lambda output: _heading(output, _is_metrics) is not None, _read_metrics),
    Layout(FAMILY, TOOL, "stats", _is_stats, _read_stats),
)

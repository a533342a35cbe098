"""hl-smi of Intel Gaudi: the columns of a query, the map from index to module, and `-L`.

Index and module are different numbers of one card. `-L` prints power by supply: a card draws their sum. What
it prints as MB means MiB (catalogue: intel-gaudi).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from steelyard.devices.blocks import BlockValues, Key, read_blocks, told, told_number
from steelyard.devices.csvrows import (
    Column,
    Value,
    address,
    celsius_written,
    count,
    looks_like,
    mib_written,
    name,
    number,
    one_of,
    percent_written,
    read_rows,
    serial,
    uuid,
    version,
    watts_written,
)
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import nothing_read, unconfirmed
from steelyard.devices.text import UnreadableError, csv_cells, known
from steelyard.model.health import Sign, SignCode, SignSource

FAMILY = "intel-gaudi"
TOOL = "hl-smi"


def _driver(text: str) -> Value:
    """The version without the hash of its build."""
    found = version(text)
    return found.partition("-")[0] if isinstance(found, str) else found


#: `-Q index,module_id,uuid,name,driver_version,memory.total,memory.used,utilization.aip,temperature.aip,`
#: `power.draw,bus_id,serial -f csv,noheader`
QUERY = (
    Column("index", number),
    Column("module", number),
    Column("uuid", uuid),
    Column("model", name),
    Column("driver", _driver),
    Column("memory", mib_written),
    Column("memory_used", mib_written),
    Column("utilisation", percent_written),
    Column("temperature", celsius_written),
    Column("power", watts_written),
    Column("pci", address),
    Column("serial", serial),
)
MODULES = (Column("index", number), Column("module", number))
_MODULES_HEADING = ["index", "module_id"]

_HEAD = re.compile(
    r"\[(?P<index>[0-9]{1,4})\] AIP \(accel(?P<host_index>[0-9]{1,4})\)"
    r" (?P<pci>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
_KEYS = (
    Key("model", ("Product Name",), name),
    Key("serial", ("Serial Number",), serial),
    Key("status", ("Module status",), name),
    Key("module", ("Module ID",), number),
    Key("uuid", ("AIP UUID",), uuid),
    Key("_bus", ("PCI", "Bus Id"), address),
    Key("memory", ("Memory Usage", "Total"), mib_written),
    Key("memory_used", ("Memory Usage", "Used"), mib_written),
    Key("chips", ("Temperature", "On Chip"), celsius_written, many=True),
    Key("supplies", ("Power Readings",), known, many=True),
    Key("draws", ("Power Readings", "Power Draw"), watts_written, many=True),
    Key("limits", ("Power Readings", "Power Limit"), watts_written, many=True),
    Key("all_draws", ("Power Draw",), known, many=True),
    Key("all_limits", ("Power Limit",), known, many=True),
    Key("rows_replaced_single", ("Replaced Rows", "Single Bit ECC"), count),
    Key("rows_replaced_double", ("Replaced Rows", "Double Bit ECC"), count),
    Key("rows_pending", ("Replaced Rows", "Pending"), one_of("Yes", "No", "N/A")),
)
_CHIP = re.compile(r"\[ ?[0-9]{1,3}\] on chip [0-9]{1,3}")
_SUPPLY = re.compile(r"power readings \([^)]{1,40}\)")
_VERSION = re.compile(r"^HL-SMI Version +: *hl-([0-9.]+[0-9])")
_DRIVER = re.compile(r"^Driver Version +: *([0-9][0-9.]*[0-9])(?:-[0-9a-zA-Z]+)?$")
_ATTACHED = re.compile(r"^Attached AIPs +: *([0-9]{1,4})$")


def _renamed(key: str) -> str:
    lower = key.lower()
    if _CHIP.fullmatch(lower):
        return "on chip"
    return "power readings" if _SUPPLY.fullmatch(lower) else lower


def _numbers(values: list[Value]) -> list[int]:
    return [value for value in values if isinstance(value, int)]


def _combined(found: BlockValues) -> Iterable[tuple[str, Value]]:
    """A card's figures: the hottest of its chips, the sum over its supplies. Raises UnreadableError."""
    yield from found.values.items()
    supplies = len(found.many["supplies"])
    for field, key in (("power", "draws"), ("power_limit", "limits")):
        values = found.many[key]
        if len(values) != supplies or len(found.many[f"all_{key}"]) != supplies:
            raise UnreadableError(key)  # one of them, or the heading of its supply, is lost
        known_values = _numbers(values)
        yield field, sum(known_values) if len(known_values) == supplies else None
    yield "temperature", max(_numbers(found.many["chips"]), default=None)


def _signs(reading: Reading) -> Iterable[Sign]:
    status = reading.other.get("status")
    if status is not None and status != "Operational":
        yield unconfirmed(SignCode.VENDOR_WARNING, SignSource.TOOL, f"Module status : {status}")
    if reading.other.get("rows_pending") == "Yes":
        yield unconfirmed(SignCode.ROWS_PENDING, SignSource.ECC, "Replaced Rows Pending : Yes")
    yield from nothing_read(reading)


def _is_list(output: Output) -> bool:
    return any(_HEAD.fullmatch(line.text) for line in output.lines if len(line.text) <= 200)


def _read_list(output: Output) -> Parsed:
    base = Reading(FAMILY, TOOL, "list", True, "")
    before, parsed = read_blocks(output, base, _HEAD, _KEYS, _signs, _combined, _renamed)
    return replace(
        parsed,
        tool_version=told(before, _VERSION),
        driver=told(before, _DRIVER),
        attached=told_number(before, _ATTACHED),
    )


def _is_modules(output: Output) -> bool:
    return any(csv_cells(line.text) == _MODULES_HEADING for line in output.lines[:1] if line.whole)


LAYOUTS = (
    Layout(FAMILY, TOOL, "list", _is_list, _read_list),
    Layout(
        FAMILY,
        TOOL,
        "modules",
        _is_modules,
        lambda output: read_rows(output, Reading(FAMILY, TOOL, "modules", True, ""), MODULES, skip=1),
    ),
    Layout(
        FAMILY,
        TOOL,
        "query",
        lambda output: looks_like(output, QUERY),
        lambda output: read_rows(output, Reading(FAMILY, TOOL, "query", True, ""), QUERY, nothing_read),
    ),
)

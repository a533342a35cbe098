"""efsmi of Enflame: `-q` in the words of older and newer drivers, and the memory part of its JSON form.

Older drivers count what is reserved as used. Keys are matched exactly, for `Dev` is a number of the bus
address (catalogue: enflame).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from steelyard.devices.blocks import BlockValues, Key, read_blocks
from steelyard.devices.csvrows import (
    Cell,
    Value,
    celsius_written,
    count,
    mib_written,
    name,
    number,
    one_of,
    percent_written,
    serial,
    version,
    watts_written,
)
from steelyard.devices.jsonrows import Field, read_objects
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import nothing_read, unconfirmed
from steelyard.devices.text import UnreadableError, at, json_in, mib, pci
from steelyard.model.health import Sign, SignCode, SignSource

FAMILY = "enflame"
TOOL = "efsmi"

_HEAD = re.compile(r"DEV ID (?P<index>[0-9]{1,4})")


def _digits(least: int, most: int) -> Cell:
    """Hexadecimal digits, as many as a part of a bus address has. Raises UnreadableError."""
    form = re.compile(rf"[0-9a-fA-F]{{{least},{most}}}")

    def read(text: str) -> Value:
        if not form.fullmatch(text):
            raise UnreadableError(text[:80])
        return text

    return read


_COMMON = (
    Key("driver", ("Driver Info", "Ver"), version),
    Key("model", ("Device Info", "Dev Name"), name),
    Key("uuid", ("Device Info", "Dev UUID"), serial),
    Key("serial", ("Device Info", "Dev SN"), serial),
    Key("healthy", ("Device Info", "Health"), one_of("True", "False")),
    Key("domain", ("PCIe Info", "Domain"), _digits(4, 8)),
    Key("bus", ("PCIe Info", "Bus"), _digits(2, 2)),
    Key("device", ("PCIe Info", "Dev"), _digits(2, 2)),
    Key("function", ("PCIe Info", "Func"), _digits(1, 1)),
    Key("power_limit", ("Power Info", "Power Capa"), watts_written),
    Key("power", ("Power Info", "Cur Power"), watts_written),
    Key("temperature", ("Temperature Info", "GCU Temp"), celsius_written),
    Key("utilisation", ("Device Usage Info", "GCU Usage"), percent_written),
    Key("rma", ("RMA Info", "Flags"), one_of("True", "False")),
    Key("cable", ("Power Cable", "Status"), name),
)
_NEW = (
    *_COMMON,
    Key("memory", ("Device Mem Info", "Total Size"), mib_written),
    Key("memory_reserved", ("Device Mem Info", "Reserved Size"), mib_written),
    Key("memory_used", ("Device Mem Info", "Used Size"), mib_written),
    Key("double_bit", ("RMA Info", "Total DBE"), count),
)
_OLD = (
    *_COMMON,
    Key("memory", ("Device Mem Info", "Mem Size"), mib_written),
    Key("memory_used", ("Device Mem Info", "Mem Usage"), mib_written),
    Key("double_bit", ("RMA Info", "DBE"), count),
)
_BUS = ("domain", "bus", "device", "function")


def _combined(found: BlockValues) -> Iterable[tuple[str, Value]]:
    yield from ((key, value) for key, value in found.values.items() if key not in _BUS)
    domain, bus, device, function = (found.values[key] for key in _BUS)
    yield "pci", pci(f"{domain}:{bus}:{device}.{function}")


def _combined_old(found: BlockValues) -> Iterable[tuple[str, Value]]:
    yield from _combined(found)
    yield "memory_used_holds_reserved", 1


def _signs(reading: Reading) -> Iterable[Sign]:
    """None of these is confirmed to mean a broken card."""
    other = reading.other
    if other.get("healthy") == "False":
        yield unconfirmed(SignCode.VENDOR_ALARM, SignSource.TOOL, "Health : False")
    if other.get("rma") == "True":
        yield unconfirmed(SignCode.VENDOR_ALARM, SignSource.TOOL, "RMA Info Flags : True")
    double_bit = other.get("double_bit")
    if isinstance(double_bit, int) and double_bit > 0:
        detail = f"RMA Info DBE : {double_bit}"
        yield unconfirmed(SignCode.ECC_UNCORRECTED, SignSource.ECC, detail, count=double_bit)
    cable = other.get("cable")
    if cable is not None and cable != "Normal":
        yield unconfirmed(SignCode.POWER_FAULT, SignSource.TOOL, f"Power Cable Status : {cable}")
    yield from nothing_read(reading)


def _is_query(output: Output) -> bool:
    return any(_HEAD.fullmatch(line.text) for line in output.lines if len(line.text) <= 200)


def _words_are_old(output: Output) -> bool:
    return any(line.text.strip().startswith("Mem Size ") for line in output.lines)


def _read_query(output: Output) -> Parsed:
    old = _words_are_old(output)
    base = Reading(FAMILY, TOOL, "query", True, "")
    keys, combine = (_OLD, _combined_old) if old else (_NEW, _combined)
    return read_blocks(output, base, _HEAD, keys, _signs, combine)[1]


def _mib_number(text: str) -> int | None:
    if not text.isascii() or not text.isdigit():
        raise UnreadableError(text[:80])
    return mib(text)


_MEMORY_FIELDS = (
    Field("index", ("id",), number),
    Field("memory", ("Device Mem Info", "Total Size"), _mib_number),
    Field("memory_reserved", ("Device Mem Info", "Reserved Size"), _mib_number),
    Field("memory_used", ("Device Mem Info", "Used Size"), _mib_number),
)


def _items(output: Output) -> list[object] | None:
    found = json_in(output)
    items = at(found.value, "devices") if found is not None else None
    if not isinstance(items, list) or all(at(item, "Device Mem Info") is None for item in items):
        return None
    return items


LAYOUTS = (
    Layout(
        FAMILY,
        TOOL,
        "memory-json",
        lambda output: _items(output) is not None,
        lambda output: read_objects(
            _items(output) or [], Reading(FAMILY, TOOL, "memory-json", True, ""), _MEMORY_FIELDS
        ),
    ),
    Layout(FAMILY, TOOL, "query", _is_query, _read_query),
)

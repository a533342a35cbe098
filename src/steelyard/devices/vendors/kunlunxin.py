"""xpu-smi of Kunlunxin: `-q` and its table. Intel's tool has the same name and other layouts.

`-q` repeats keys (`Total` of the memory and of the cache), so a key counts by the section it stands in. A
virtual function stands in the table as a card of its own; it is a part of function 0 of its slot (catalogue:
kunlunxin).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from steelyard.devices.blocks import BlockValues, Key, read_blocks, told, told_number
from steelyard.devices.cardtable import (
    INDEX,
    MODEL,
    POWER_AND_LIMIT,
    TEMPERATURE,
    USED_AND_TOTAL,
    UTILISATION,
    Table,
    forms,
    heading,
    read_cards,
)
from steelyard.devices.cardtable import PCI as BUS
from steelyard.devices.csvrows import (
    Value,
    address,
    celsius_written,
    count,
    mib_written,
    name,
    number,
    percent_written,
    serial,
    uuid,
    watts_written,
)
from steelyard.devices.output import Layout, Output
from steelyard.devices.processes import with_processes
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import ecc_uncorrected, nothing_read
from steelyard.model.health import Sign

FAMILY = "kunlunxin"
TOOL = "xpu-smi"

_HEAD = re.compile(r"XPU (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_KEYS = (
    Key("model", ("Product Name",), name),
    Key("serial", ("Serial Number",), serial),
    Key("uuid", ("XPU UUID",), uuid),
    Key("host_index", ("Minor Number",), number),
    Key("_bus", ("PCI", "Bus Id"), address),
    Key("memory", ("Memory Usage", "Total"), mib_written),
    Key("memory_used", ("Memory Usage", "Used"), mib_written),
    Key("utilisation", ("Utilization", "Xpu"), percent_written),
    Key("ecc_uncorrected", ("ECC Errors", "Volatile", "DRAM Uncorrectable"), count),
    Key("temperature", ("Temperature", "XPU Current Temp"), celsius_written),
    Key("power_limit", ("Power Readings", "Enforced Power Limit"), watts_written),
    Key("power", ("Power Readings", "Power Draw"), watts_written),
    Key("running", ("Processes",), lambda text: text, needed=False),
)
_DRIVER_KEY = re.compile(r"^Driver Version +: *([0-9][0-9A-Za-z.]*)$")
_ATTACHED = re.compile(r"^Attached XPUs +: *([0-9]{1,4})$")

_FORMS = forms({
    "": "",
    "xpu name persistence-m": rf"{INDEX} +{MODEL} +(?:On|Off|N/A)",
    "bus-id disp.a": rf"{BUS} +(?:On|Off|N/A)",
    "volatile uncorr. ecc": r"(?P<ecc_uncorrected>[0-9]{1,12}|N/A|Off)",
    "fan temp perf pwr:usage/cap": rf"(?:[0-9]+ ?%|N/A) +{TEMPERATURE} +(?:P[0-9]+|N/A) +{POWER_AND_LIMIT}",
    "memory-usage": USED_AND_TOTAL,
    "xpu-util compute m.": rf"{UTILISATION} +\S[^|]*",
    "l3-usage": r"[0-9]+MiB ?/ *[0-9]+MiB|N/A(?: ?/ ?N/A)?",
    "sr-iov m.": r"(?P<mig>Enabled|Disabled|N/A)",
})
_FIRST = frozenset({"xpu name persistence-m"})
_DRIVER = re.compile(r"Driver Version: *([0-9][0-9A-Za-z.]*)")
_VIRTUAL = re.compile(r"\bVF\b")


def _combined(found: BlockValues) -> Iterable[tuple[str, Value]]:
    """`Processes : None` says that there is none; how others are printed was not seen."""
    yield from ((name, value) for name, value in found.values.items() if name != "running")
    if found.values.get("running") == "None":
        yield "holders", ()


def _signs(reading: Reading) -> Iterable[Sign]:
    yield from ecc_uncorrected(reading.ecc_uncorrected, f"DRAM Uncorrectable : {reading.ecc_uncorrected}")
    yield from nothing_read(reading)


def _is_query(output: Output) -> bool:
    return any(_HEAD.fullmatch(line.text) for line in output.lines if len(line.text) <= 200)


def _read_query(output: Output) -> Parsed:
    base = Reading(FAMILY, TOOL, "query", True, "")
    before, parsed = read_blocks(output, base, _HEAD, _KEYS, _signs, _combined)
    return replace(parsed, driver=told(before, _DRIVER_KEY), attached=told_number(before, _ATTACHED))


def _table(output: Output) -> Table | None:
    return heading(output.lines, _FIRST, _FORMS, 3)


def _read_table(output: Output) -> Parsed:
    table = _table(output)
    if table is None:
        return Parsed()
    parsed = read_cards(output, Reading(FAMILY, TOOL, "xpu-table", True, ""), table, _signs)
    parsed = with_processes(parsed, output.lines[table.start :])
    driver = told(output.lines[: table.start], _DRIVER)
    return replace(parsed, readings=tuple(_part(reading) for reading in parsed.readings), driver=driver)


def _part(reading: Reading) -> Reading:
    """A virtual function with the card it is a part of: function 0 in the same slot."""
    if reading.pci is None or reading.model is None or not _VIRTUAL.search(reading.model):
        return reading
    return replace(reading, parent=reading.pci.rpartition(".")[0] + ".0", partition="vf")


LAYOUTS = (
    Layout(FAMILY, TOOL, "query", _is_query, _read_query),
    Layout(FAMILY, TOOL, "xpu-table", lambda output: _table(output) is not None, _read_table),
)

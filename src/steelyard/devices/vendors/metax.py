"""mx-smi of MetaX: its table, in the column orders of several releases, and `--show-memory`.

Another vendor's tool is called mx-smi, too; its heading is not one of these. Layouts after public issues and
scripts (catalogue: metax); memory that is printed as KB means KiB.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from steelyard.devices.blocks import Key, read_blocks, told, told_number
from steelyard.devices.cardtable import (
    INDEX,
    MODEL,
    PCI,
    POWER,
    POWER_AND_LIMIT,
    TEMPERATURE,
    USED_AND_TOTAL,
    UTILISATION,
    Table,
    forms,
    heading,
    read_cards,
)
from steelyard.devices.csvrows import kib_written, percent_written
from steelyard.devices.output import Layout, Output
from steelyard.devices.processes import with_processes
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import nothing_read, unconfirmed
from steelyard.model.health import Sign, SignCode, SignSource

FAMILY = "metax"
TOOL = "mx-smi"

_PERF = r"(?:P[0-9]{1,2}|N/A)"
_FORMS = forms({
    "": "",
    "gpu name": rf"{INDEX} +{MODEL}",
    "board name": rf"(?P<module>[0-9]{{1,4}}) +{MODEL}",
    "gpu persist-m": rf"{INDEX} +(?:On|Off|N/A)",
    "gpu name persistence-m": rf"{INDEX} +{MODEL} +(?:On|Off|N/A)",
    "bus-id": PCI,
    "gpu-util": UTILISATION,
    "gpu-util sgpu-m": rf"{UTILISATION} +(?P<mig>Enabled|Disabled|Native|N/A)",
    "persistence-m": r"\S{1,8} +(?:On|Off|N/A)",
    "temp power": rf"{TEMPERATURE} +{POWER}",
    "temp pwr:usage/cap": rf"{TEMPERATURE} +{POWER_AND_LIMIT}",
    "temp pwr:usage/cap perf": rf"{TEMPERATURE} +{POWER_AND_LIMIT} +{_PERF}",
    "pwr:usage/cap": POWER_AND_LIMIT,
    "temp perf": rf"{TEMPERATURE} +{_PERF}",
    "memory-usage": USED_AND_TOTAL,
    "gpu-state": r"(?P<state>Available|Not Available)",
})
_FIRST = frozenset({"gpu name", "gpu name persistence-m", "board name"})
_VERSION = re.compile(r"MX-SMI +([0-9][0-9A-Za-z.]*)|mx-smi +version: *([0-9][0-9A-Za-z.]*)")
_DRIVER = re.compile(r"Kernel Mode Driver Version: *([0-9][0-9A-Za-z.]*)")
_ATTACHED = re.compile(r"Attached GPUs +: *([0-9]{1,4})$")

_CARD = re.compile(
    r"GPU#(?P<index>[0-9]{1,4}) +(?P<model>[A-Za-z][^|]*?)"
    r" +(?P<pci>[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
)
_MEMORY_KEYS = (
    Key("memory", ("Memory", "vis_vram total"), kib_written),
    Key("memory_used", ("Memory", "vis_vram used"), kib_written),
    Key("_share", ("Memory", "vis_vram usage"), percent_written),
)


def _table(output: Output) -> Table | None:
    return heading(output.lines, _FIRST, _FORMS, 2)


def _signs(reading: Reading) -> Iterable[Sign]:
    if reading.other.get("state") == "Not Available":
        yield unconfirmed(SignCode.VENDOR_WARNING, SignSource.TOOL, "Not Available")
    yield from nothing_read(reading)


def _read_table(output: Output) -> Parsed:
    table = _table(output)
    if table is None:
        return Parsed()
    parsed = read_cards(output, Reading(FAMILY, TOOL, "table", True, ""), table, _signs)
    before = output.lines[: table.start]
    return replace(
        with_processes(parsed, output.lines[table.start :]),
        tool_version=told(before, _VERSION),
        driver=told(before, _DRIVER),
        attached=told_number(before, _ATTACHED),
    )


def _is_memory(output: Output) -> bool:
    return any(_CARD.fullmatch(line.text) for line in output.lines if len(line.text) <= 200)


def _read_memory(output: Output) -> Parsed:
    _, parsed = read_blocks(output, Reading(FAMILY, TOOL, "memory", True, ""), _CARD, _MEMORY_KEYS)
    return parsed


LAYOUTS = (
    Layout(FAMILY, TOOL, "table", lambda output: _table(output) is not None, _read_table),
    Layout(FAMILY, TOOL, "memory", _is_memory, _read_memory),
)

"""ixsmi of Iluvatar: the columns that public readers ask for, with units and without, and its table.

The grammar is that of nvidia-smi; names of columns differ between releases (catalogue: iluvatar).
"""

from __future__ import annotations

import re
from dataclasses import replace

from steelyard.devices.blocks import told
from steelyard.devices.cardtable import (
    INDEX,
    MODEL,
    PCI,
    POWER_AND_LIMIT,
    TEMPERATURE,
    USED_AND_TOTAL,
    UTILISATION,
    Table,
    forms,
    heading,
    read_cards,
)
from steelyard.devices.csvrows import (
    Column,
    address,
    celsius_bare,
    celsius_written,
    looks_like,
    mib_written,
    name,
    number,
    percent_bare,
    percent_written,
    read_rows,
    serial,
    uuid,
    version,
    watts_bare,
)
from steelyard.devices.output import Layout, Output
from steelyard.devices.processes import with_processes
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import nothing_read

FAMILY = "iluvatar"
TOOL = "ixsmi"

#: `--query-gpu=index,name,memory.total,memory.used,utilization.gpu,temperature.gpu --format=csv,noheader`
QUERY = (
    Column("index", number),
    Column("model", name),
    Column("memory", mib_written),
    Column("memory_used", mib_written),
    Column("utilisation", percent_written),
    Column("temperature", celsius_written),
)
#: The same with `uuid` after `index` and `driver_version` at the end.
QUERY_UUID = (
    Column("index", number),
    Column("uuid", uuid),
    *QUERY[1:],
    Column("driver", version),
)
#: Power, temperature, utilisation, memory utilisation, index, bus, serial, `--format=csv,noheader,nounits`
QUERY_NOUNITS = (
    Column("power", watts_bare),
    Column("temperature", celsius_bare),
    Column("utilisation", percent_bare),
    Column("memory_utilisation", percent_bare),
    Column("index", number),
    Column("pci", address),
    Column("serial", serial),
)

_FORMS = forms({
    "gpu name": rf"{INDEX} +{MODEL}",
    "bus-id": PCI,
    "clock-sm clock-mem": r"[0-9]+ ?MHz +[0-9]+ ?MHz|N/A +N/A",
    "fan temp perf pwr:usage/cap": rf"(?:[0-9]+ ?%|N/A) +{TEMPERATURE} +(?:P[0-9]+|N/A) +{POWER_AND_LIMIT}",
    "memory-usage": USED_AND_TOTAL,
    "gpu-util compute m.": rf"{UTILISATION} +\S[^|]*",
})
_FIRST = frozenset({"gpu name"})
_VERSION = re.compile(r"IX-ML: *([0-9][0-9A-Za-z.]*)")
_DRIVER = re.compile(r"Driver Version: *([0-9][0-9A-Za-z.]*)")


def _table(output: Output) -> Table | None:
    return heading(output.lines, _FIRST, _FORMS, 2)


def _read_table(output: Output) -> Parsed:
    table = _table(output)
    if table is None:
        return Parsed()
    parsed = read_cards(output, Reading(FAMILY, TOOL, "table", True, ""), table, nothing_read)
    before = output.lines[: table.start]
    parsed = with_processes(parsed, output.lines[table.start :])
    return replace(parsed, tool_version=told(before, _VERSION), driver=told(before, _DRIVER))


def _query(layout: str, columns: tuple[Column, ...]) -> Layout:
    base = Reading(FAMILY, TOOL, layout, True, "")
    return Layout(
        FAMILY,
        TOOL,
        layout,
        lambda output: looks_like(output, columns),
        lambda output: read_rows(output, base, columns, nothing_read),
    )


LAYOUTS = (
    Layout(FAMILY, TOOL, "table", lambda output: _table(output) is not None, _read_table),
    _query("query-uuid", QUERY_UUID),
    _query("query", QUERY),
    _query("query-nounits", QUERY_NOUNITS),
)

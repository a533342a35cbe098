"""brsmi of Biren: the columns of one public reader. No output of the tool is public (catalogue: biren)."""

from __future__ import annotations

from steelyard.devices.csvrows import (
    Column,
    address,
    celsius_bare,
    looks_like,
    mib_bare,
    name,
    number,
    percent_bare,
    read_rows,
    uuid,
)
from steelyard.devices.output import Layout
from steelyard.devices.reading import Reading
from steelyard.devices.signs import nothing_read

FAMILY = "biren"
TOOL = "brsmi"

#: `gpu --query-gpu=index,name,uuid,pci.bus_id,utilization.gpu,memory.used,memory.total,temperature.gpu`
#: `--format=csv,noheader,nounits`
QUERY = (
    Column("index", number),
    Column("model", name),
    Column("uuid", uuid),
    Column("pci", address),
    Column("utilisation", percent_bare),
    Column("memory_used", mib_bare),
    Column("memory", mib_bare),
    Column("temperature", celsius_bare),
)

LAYOUTS = (
    Layout(
        FAMILY,
        TOOL,
        "query",
        lambda output: looks_like(output, QUERY),
        lambda output: read_rows(output, Reading(FAMILY, TOOL, "query", True, ""), QUERY, nothing_read),
    ),
)

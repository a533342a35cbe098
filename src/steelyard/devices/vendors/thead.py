"""ppu-smi of T-Head: two queries with units, and `-q`.

Xids of this vendor are not NVIDIA's: none is read here (catalogue: thead-ppu).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from steelyard.devices.blocks import BlockValues, Key, read_blocks, told_number
from steelyard.devices.csvrows import (
    Column,
    Signs,
    Value,
    address,
    celsius_written,
    count,
    looks_like,
    mib_written,
    name,
    no_signs,
    percent_written,
    read_rows,
    serial,
    uuid,
    watts_written,
)
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Reading
from steelyard.devices.signs import ecc_uncorrected, nothing_read
from steelyard.devices.text import UnreadableError, known
from steelyard.model.health import Sign

FAMILY = "thead-ppu"
TOOL = "ppu-smi"

_RATE = re.compile(r"[0-9]{1,15}(?:\.[0-9]+)? [KMG]?B/s")


def _rate(text: str) -> Value:
    plain = known(text)
    if not text.strip() or (plain is not None and not _RATE.fullmatch(plain)):
        raise UnreadableError(text[:80])
    return plain


#: `--query-ppu=gpu_bus_id,utilization.ppu,temperature.ppu,power.draw,utilization.memory,pcie.throughput.tx,`
#: `pcie.throughput.rx,gpu_serial --format=csv,noheader`
QUERY = (
    Column("pci", address),
    Column("utilisation", percent_written),
    Column("temperature", celsius_written),
    Column("power", watts_written),
    Column("memory_utilisation", percent_written),
    Column("_sent", _rate),
    Column("_received", _rate),
    Column("serial", serial),
)
#: `--query-ppu=gpu_bus_id,memory.total,power.limit,gpu_serial --format=csv,noheader`
QUERY_LIMITS = (
    Column("pci", address),
    Column("memory", mib_written),
    Column("power_limit", watts_written),
    Column("serial", serial),
)

_HEAD = re.compile(r"PPU (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])")
_KEYS = (
    Key("model", ("Product Name",), name),
    Key("uuid", ("PPU UUID",), uuid),
    Key("utilisation", ("Utilization", "Ppu"), percent_written),
    Key("sram", ("ECC Errors", "Volatile", "SRAM Uncorrectable"), count),
    Key("dram", ("ECC Errors", "Volatile", "DRAM Uncorrectable"), count),
    Key("temperature", ("Temperature", "PPU Current Temp"), celsius_written),
    Key("power", ("Power Readings", "Power Draw"), watts_written),
)
_ATTACHED = re.compile(r"^Attached PPUs +: *([0-9]{1,4})$")


def _combined(found: BlockValues) -> Iterable[tuple[str, Value]]:
    """Uncorrectable errors of both memories together; unknown where one of them is."""
    yield from ((key, value) for key, value in found.values.items() if key not in ("sram", "dram"))
    counts = [found.values[key] for key in ("sram", "dram")]
    numbers = [one for one in counts if isinstance(one, int)]
    yield "ecc_uncorrected", sum(numbers) if len(numbers) == len(counts) else None


def _signs(reading: Reading) -> Iterable[Sign]:
    yield from ecc_uncorrected(reading.ecc_uncorrected, f"Volatile Uncorrectable : {reading.ecc_uncorrected}")
    yield from nothing_read(reading)


def _is_list(output: Output) -> bool:
    return any(_HEAD.fullmatch(line.text) for line in output.lines if len(line.text) <= 200)


def _read_list(output: Output) -> Parsed:
    base = Reading(FAMILY, TOOL, "list", True, "")
    before, parsed = read_blocks(output, base, _HEAD, _KEYS, _signs, _combined)
    return replace(parsed, attached=told_number(before, _ATTACHED))


def _query(layout: str, columns: tuple[Column, ...], signs: Signs) -> Layout:
    base = Reading(FAMILY, TOOL, layout, True, "")
    return Layout(
        FAMILY,
        TOOL,
        layout,
        lambda output: looks_like(output, columns),
        lambda output: read_rows(output, base, columns, signs),
    )


LAYOUTS = (
    Layout(FAMILY, TOOL, "list", _is_list, _read_list),
    _query("query", QUERY, nothing_read),
    _query("query-limits", QUERY_LIMITS, no_signs),
)

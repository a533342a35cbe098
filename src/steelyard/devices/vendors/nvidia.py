"""nvidia-smi: `--query-gpu` as csv and `-L`; nvidia_table.py has its table, nvidia_apps.py its processes.

Sources: NVIDIA's manual of nvidia-smi, the catalogue (nvidia), public outputs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from steelyard.devices.csvrows import Column, Value, looks_like, number, read_rows
from steelyard.devices.failing import failure_in, failure_layout
from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, kept
from steelyard.devices.text import (
    UnreadableError,
    celsius,
    csv_columns,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    whole,
)
from steelyard.devices.vendors.nvidia_apps import PROCESSES
from steelyard.devices.vendors.nvidia_kernel import KERNEL
from steelyard.devices.vendors.nvidia_table import TABLE
from steelyard.devices.vendors.nvidia_words import (
    FAILURE_TEXTS,
    FAMILY,
    TOOL,
    ecc_sign,
    lost_card,
    word_signs,
)
from steelyard.model.health import Sign

QUERY = "query-csv"
LIST = "list"

_UUID = re.compile(r"GPU-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_MODES = {"enabled": 1, "disabled": 0}
_GPU = re.compile(r"GPU ([0-9]{1,4}): (.{1,120}) \(UUID: ([^() ]{1,80})\)")
_MIG = re.compile(r"MIG ([0-9a-z.+]{1,32}) +Device +([0-9]{1,3}): \(UUID: (MIG-[0-9A-Za-z/-]{8,90})\)")
_GPU_LINE = re.compile(r"GPU ([0-9]{1,4}):")


def _cell(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """A cell that is never blank: the tool prints [N/A] where it does not know."""

    def strict(text: str) -> Value:
        if not text.strip():
            raise UnreadableError(text)
        return read(text)

    return strict


def _uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise UnreadableError(text[:80])
    return text


def _name(text: str) -> str | None:
    if text[:1].isdigit() or len(text) > 120:
        raise UnreadableError(text[:80])
    return known(text)


def _mode(text: str) -> bool | None:
    plain = known(text)
    if plain is None:
        return None
    if plain.lower() not in _MODES:
        raise UnreadableError(plain[:80])
    return bool(_MODES[plain.lower()])


def _nothing(_: str) -> None:
    """A column that was asked for and that no reading has a place for."""


_INDEX = Column("index", number)
_UUIDS = Column("uuid", _uuid)
_NAMES = Column("model", _cell(_name))
_BUS = Column("pci", _cell(pci))
_DRIVER = Column("driver", _cell(known))
#: Name of a queried column → what it tells.
COLUMNS: dict[str, Column] = {
    "index": _INDEX,
    "uuid": _UUIDS,
    "gpu_uuid": _UUIDS,
    "name": _NAMES,
    "gpu_name": _NAMES,
    "pci.bus_id": _BUS,
    "gpu_bus_id": _BUS,
    "serial": Column("serial", _cell(known)),
    "gpu_serial": Column("serial", _cell(known)),
    "memory.total": Column("memory", _cell(mib)),
    "memory.used": Column("memory_used", _cell(mib)),
    "utilization.gpu": Column("utilisation", _cell(percent)),
    "utilization.memory": Column("memory_utilisation", _cell(percent)),
    "temperature.gpu": Column("temperature", _cell(celsius)),
    "power.draw": Column("power", _cell(milliwatts)),
    "power.limit": Column("power_limit", _cell(milliwatts)),
    "driver_version": _DRIVER,
    "vbios_version": Column("firmware", _cell(known)),
    "mig.mode.current": Column("mig", _cell(_mode)),
    "ecc.errors.uncorrected.volatile.total": Column("ecc_uncorrected", _cell(whole)),
}
#: What is asked for, in this order; a text without a header is read by it.
ASKED = (
    "index",
    "uuid",
    "name",
    "pci.bus_id",
    "memory.total",
    "memory.used",
    "utilization.gpu",
    "temperature.gpu",
    "power.draw",
    "power.limit",
    "driver_version",
    "mig.mode.current",
    "ecc.errors.uncorrected.volatile.total",
)
_ASKED = tuple(COLUMNS[name] for name in ASKED)


def _header(output: Output) -> tuple[int, tuple[Column, ...]] | None:
    """The place of the header among the lines, and its columns; None where there is none."""
    for place, line in enumerate(output.lines[:20]):
        names = [column.name for column in csv_columns(line.text)]
        if len(names) > 1 and line.whole and sum(name in COLUMNS for name in names) * 2 > len(names):
            return place, tuple(COLUMNS.get(name, Column("", _nothing)) for name in names)
    return None


def _is_query(output: Output) -> bool:
    return _header(output) is not None or looks_like(output, _ASKED)


def _signs(reading: Reading) -> Iterable[Sign]:
    yield from word_signs(reading.line)
    yield from ecc_sign(reading.ecc_uncorrected)


def _parse_query(output: Output) -> Parsed:
    header = _header(output)
    start, columns = (0, _ASKED) if header is None else (header[0] + 1, header[1])
    rows, lost, problems = _told_apart(output.lines[start:], QUERY)
    base = Reading(family=FAMILY, tool=TOOL, layout=QUERY, complete=True, line="")
    parsed = read_rows(replace(output, lines=rows), base, columns, _signs)
    problems = (*problems, *(_not_whole(one) for one in lost if not one.complete))
    return replace(parsed, readings=(*parsed.readings, *lost), problems=(*problems, *parsed.problems))


def _not_whole(reading: Reading) -> Problem:
    return Problem(ProblemCode.ROW_INCOMPLETE, reading.line)


# -- the list ----------------------------------------------------------------------------------------------


def _told_apart(
    lines: Sequence[Line], layout: str
) -> tuple[tuple[Line, ...], tuple[Reading, ...], tuple[Problem, ...]]:
    """Lines that may be rows, the cards that a line says are lost, and other lines that tell of a failure."""
    rows, lost, problems = [], [], []
    for line in lines:
        gone = lost_card(line, layout)
        problem = None if gone else failure_in(line, FAILURE_TEXTS)
        if gone is not None:
            lost.append(gone)
        elif problem is not None:
            problems.append(problem)
        else:
            rows.append(line)
    return tuple(rows), tuple(lost), tuple(problems)


def _is_list(output: Output) -> bool:
    return any(_GPU.match(line.text) or lost_card(line, LIST) for line in output.lines)


def _parse_list(output: Output) -> Parsed:
    """Cards in the order printed, each MIG instance behind its card."""
    readings: list[Reading] = []
    problems: list[Problem] = []
    card: Reading | None = None
    place = 0  # of `card` among the readings
    for line in output.lines:
        found = lost_card(line, LIST) or _listed(line, card)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        if found.parent is None:
            card = found if found.complete and found.uuid else None
            place = len(readings)
        elif card is not None and not card.mig:
            card = readings[place] = replace(card, mig=True)
        readings.append(found)
        if not found.complete:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, found.line, line.number))
    return Parsed(readings=tuple(readings), problems=tuple(problems))


def _listed(line: Line, card: Reading | None) -> Reading | Problem:
    """The card or instance that one line lists. `card`: the one listed last, whose instances follow it."""
    base = Reading(family=FAMILY, tool=TOOL, layout=LIST, complete=True, line=kept(line.text))
    gpu = _GPU.fullmatch(line.text)
    if gpu is not None and _UUID.fullmatch(gpu[3]):
        return replace(base, index=int(gpu[1]), model=gpu[2].strip(), uuid=gpu[3])
    mig = _MIG.fullmatch(line.text.strip())
    if mig is not None and card is not None:
        part = replace(base, uuid=mig[3], parent=card.uuid, model=card.model, partition=mig[1])
        return replace(part, other={"part": int(mig[2])})
    begun = _GPU_LINE.match(line.text)
    if begun is not None:
        return incomplete(replace(base, index=int(begun[1])), line.text)
    problem = failure_in(line, FAILURE_TEXTS)
    return problem or Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number)


LAYOUTS = (
    PROCESSES,
    Layout(FAMILY, TOOL, QUERY, _is_query, _parse_query),
    TABLE,
    Layout(FAMILY, TOOL, LIST, _is_list, _parse_list),
    failure_layout(FAMILY, TOOL, FAILURE_TEXTS),
    KERNEL,
)

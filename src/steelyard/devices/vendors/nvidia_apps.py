"""nvidia-smi `--query-compute-apps` as csv with its header: which processes are on which card.

A name may hold commas: the first two columns and the last one are told from the ends. No row is an answer.
Source: NVIDIA's manual of nvidia-smi.
"""

from __future__ import annotations

import re

from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, kept
from steelyard.devices.text import UnreadableError, csv_columns, mib
from steelyard.devices.vendors.nvidia_words import FAMILY, TOOL
from steelyard.model.health import DeviceHolder

APPS = "compute-apps"
_COLUMNS = (("gpu_uuid",), ("pid",), ("process_name", "name"), ("used_gpu_memory", "used_memory"))
_UUID = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]{8,90}")
_PID = re.compile(r"[0-9]{1,9}")
_NAME_MAX = 120


def _header(output: Output) -> int | None:
    """The place of the header among the lines."""
    for place, line in enumerate(output.lines[:20]):
        names = [column.name for column in csv_columns(line.text)]
        fits = len(names) == len(_COLUMNS) and line.whole
        if fits and all(name in known for name, known in zip(names, _COLUMNS, strict=True)):
            return place
    return None


def _row(line: Line) -> tuple[str, DeviceHolder] | None:
    """(uuid of the card, process) of a row; None where it is not whole."""
    uuid, _, rest = line.text.partition(",")
    pid, _, rest = rest.strip().partition(",")
    name, _, memory = rest.rpartition(",")
    if not line.whole or not name.strip() or not _UUID.fullmatch(uuid) or not _PID.fullmatch(pid):
        return None
    try:
        used = mib(memory, required=True)
    except UnreadableError:
        return None
    return uuid, DeviceHolder(int(pid), kept(name)[:_NAME_MAX], used)


def _parse(output: Output) -> Parsed:
    start = _header(output)
    holders: dict[str, list[DeviceHolder]] = {}
    lines: dict[str, str] = {}
    problems = []
    for line in output.lines[(0 if start is None else start + 1) :]:
        row = _row(line)
        if row is None:
            problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number))
            continue
        holders.setdefault(row[0], []).append(row[1])
        lines[row[0]] = kept(line.text)
    readings = (
        Reading(FAMILY, TOOL, APPS, True, lines[uuid], uuid=uuid, holders=tuple(found))
        for uuid, found in holders.items()
    )
    return Parsed(readings=tuple(readings), problems=tuple(problems), processes=not problems)


PROCESSES = Layout(FAMILY, TOOL, APPS, lambda output: _header(output) is not None, _parse)

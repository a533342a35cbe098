"""Chips of Google TPUs by their device files, and by their numbers on the bus.

Up to v4 a chip is /dev/accelN; later it is an IOMMU group, /dev/vfio/N, whose number stays when another chip
is gone. Network and storage of the same vendor stand on the bus, too: the device number decides. A listing
tells who is there and nothing of health (catalogue: google-tpu).
"""

from __future__ import annotations

import re

from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, kept
from steelyard.devices.text import pci

FAMILY = "google-tpu"
FILES = "device-files"
BUS = "lspci"

_ACCEL = re.compile(r"/dev/accel([0-9]{1,4})")
_GROUP = re.compile(r"/dev/vfio/([0-9]{1,4})")
_LINE_MAX = 200
_ON_BUS = re.compile(
    r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]) ([0-9a-f]{4}): 1ae0:([0-9a-f]{4})"
    r"(?: \(rev [0-9a-f]{2}\))?"
)
_ACCELERATOR = "12"  # how the class of a processing accelerator begins
_MODELS = {
    "0027": "TPU v3",
    "005e": "TPU v4",
    "0063": "TPU v5e",
    "0062": "TPU v5p",
    "006f": "TPU v6e",
    "0076": "TPU v7x",
}


def _match(pattern: re.Pattern[str], line: Line) -> re.Match[str] | None:
    return pattern.fullmatch(line.text.strip()) if line.whole and len(line.text) <= _LINE_MAX else None


def _has(pattern: re.Pattern[str], output: Output) -> bool:
    return any(_match(pattern, line) for line in output.lines)


def _read_accel(output: Output) -> Parsed:
    readings = []
    for line in output.lines:
        match = _match(_ACCEL, line)
        if match is not None:
            number, text = int(match[1]), kept(line.text)
            readings.append(Reading(FAMILY, FILES, "accel", True, text, index=number, host_index=number))
    return Parsed(readings=tuple(readings), problems=_cut(output))


def _read_groups(output: Output) -> Parsed:
    matches = [(line, _match(_GROUP, line)) for line in output.lines]
    readings = tuple(
        Reading(FAMILY, FILES, "vfio", True, kept(line.text), host_index=int(match[1]))
        for line, match in matches
        if match is not None
    )
    return Parsed(readings=readings, problems=_cut(output))


def _cut(output: Output) -> tuple[Problem, ...]:
    """A last line without an end: its number may lack digits."""
    return tuple(
        Problem(ProblemCode.TRUNCATED, kept(line.text), line.number)
        for line in output.lines[-1:]
        if not line.whole
    )


def _read_bus(output: Output) -> Parsed:
    readings, problems = [], list(_cut(output))
    for line in output.lines:
        match = _match(_ON_BUS, line)
        if match is None or not match[2].startswith(_ACCELERATOR):
            continue
        model = _MODELS.get(match[3])
        if model is None:
            problems.append(Problem(ProblemCode.UNRECOGNISED, kept(line.text), line.number))
            continue
        readings.append(Reading(FAMILY, BUS, "tpu", True, kept(line.text), pci=pci(match[1]), model=model))
    return Parsed(readings=tuple(readings), problems=tuple(problems))


LAYOUTS = (
    Layout(FAMILY, FILES, "accel", lambda output: _has(_ACCEL, output), _read_accel),
    Layout(FAMILY, FILES, "vfio", lambda output: _has(_GROUP, output), _read_groups),
    Layout(FAMILY, BUS, "tpu", lambda output: _has(_ON_BUS, output), _read_bus),
)

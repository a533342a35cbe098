"""What a parser of a vendor tool's output gives: one reading a device, and the lines it could not use.

A parser is a pure function from text to `Parsed`. It never raises on any text: what it can't read becomes
a problem with the line kept, and one bad row never hides the good ones. A reading's figures are set only
when its whole row was read (`complete`); of an incomplete row the identity is kept where it was certain,
every figure is None, and its health is unknown with a `row-incomplete` sign.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum

from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource

LINE_LIMIT = 400  # characters of a line that are kept
DETAIL_LIMIT = 200  # characters of a source's words that a sign keeps
READINGS_MAX = 4_096  # of one output: no host has as many devices, partitions counted
PROBLEMS_MAX = 100  # of one output; what repeats a thousand times is told often enough
TEXT_LIMIT = 4 * 1024 * 1024  # characters of an output that are looked at; the rest is a problem
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class ProblemCode(StrEnum):
    """Closed list: what a parser could not use, and why."""

    UNRECOGNISED = "unrecognised"  # not a layout of this tool (localized, cut, of a version not known)
    TOOL_FOREIGN = "tool-foreign"  # a layout of another vendor's tool of the same name
    ROW_INCOMPLETE = "row-incomplete"
    TRUNCATED = "truncated"
    TOO_LONG = "too-long"
    NO_DEVICE = "no-device"  # the tool itself says that there is none
    TOOL_ERROR = "tool-error"  # the tool itself says that it failed


@dataclass(frozen=True, slots=True)
class Problem:
    """A line (or the whole text) that could not be used."""

    code: ProblemCode
    line: str  # at most LINE_LIMIT characters, control characters taken out
    number: int | None = None  # of the line in the text, from 1
    sign: SignCode | None = None  # which step failed, where the line says so


@dataclass(frozen=True, slots=True)
class Reading:
    """One device as one tool tells it. None: the tool did not say, or said that it does not know.

    The several numbers of one card are kept apart: `index` is the tool's own, `host_index` that of the
    device file, `in_container` what a container's runtime calls it, `uuid` the device's own.
    """

    family: str
    tool: str
    layout: str
    complete: bool
    line: str
    index: int | None = None
    host_index: int | None = None
    in_container: int | None = None
    module: int | None = None  # slot or module id where the vendor has one; chips of one card share it
    uuid: str | None = None
    serial: str | None = None
    pci: str | None = None  # dddd:bb:dd.f in lower case
    parent: str | None = None  # `uuid`, else `pci`, else `index` of the card it is a part of
    partition: str | None = None  # e.g. the MIG profile or the vNPU template
    model: str | None = None
    memory: int | None = None  # MiB
    memory_used: int | None = None  # MiB
    utilisation: int | None = None  # percent
    memory_utilisation: int | None = None  # percent
    temperature: int | None = None  # degrees Celsius
    power: int | None = None  # milliwatts
    power_limit: int | None = None  # milliwatts
    driver: str | None = None
    firmware: str | None = None
    ecc_uncorrected: int | None = None
    mig: bool | None = None  # whether the card is split into partitions; None where the tool doesn't say
    health: Health = Health.HEALTHY  # as far as this tool tells; devices/health.py weighs all sources
    signs: tuple[Sign, ...] = ()
    holders: tuple[DeviceHolder, ...] | None = None  # processes on it; None: this layout doesn't list them
    other: dict[str, str | int] = field(default_factory=dict)  # further facts by neutral names


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one output of one tool held."""

    readings: tuple[Reading, ...] = ()
    problems: tuple[Problem, ...] = ()
    tool_version: str | None = None
    driver: str | None = None
    attached: int | None = None  # how many the tool itself says there are; fewer readings: one is missing
    layout: str | None = None  # the layout that the text was in; None: not recognised
    processes: bool = False  # it lists every process on the tool's devices, and that list is whole


#: What a reading tells in figures; none of them is kept of an incomplete row.
FIGURES = (
    "memory",
    "memory_used",
    "utilisation",
    "memory_utilisation",
    "temperature",
    "power",
    "power_limit",
    "ecc_uncorrected",
)
_WORST_FIRST = (Health.MISSING, Health.UNHEALTHY, Health.UNKNOWN, Health.DEGRADED, Health.HEALTHY)


def incomplete(identity: Reading, why: str = "") -> Reading:
    """A row that could not be read whole: who it is where that was certain, no figure, unknown health."""
    sign = Sign(SignCode.ROW_INCOMPLETE, Health.UNKNOWN, SignSource.TOOL, kept(why)[:DETAIL_LIMIT])
    bare = replace(
        identity,
        memory=None,
        memory_used=None,
        utilisation=None,
        memory_utilisation=None,
        temperature=None,
        power=None,
        power_limit=None,
        ecc_uncorrected=None,
    )
    bare = replace(bare, complete=False, mig=None, holders=None, other={})
    return replace(bare, health=Health.UNKNOWN, signs=(sign,))


def judged(reading: Reading, signs: Iterable[Sign]) -> Reading:
    """A complete row with what speaks against its health, worst first; its health is that of the worst."""
    ranked = sorted(signs, key=lambda sign: _WORST_FIRST.index(sign.health))
    health = ranked[0].health if ranked else Health.HEALTHY
    return replace(reading, signs=tuple(ranked), health=health)


def clean(text: str) -> str:
    """The text without colour codes, byte-order mark and control characters; line ends as `\\n`."""
    plain = _ANSI.sub("", text.removeprefix("\ufeff")).replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", plain)


def kept(line: str) -> str:
    """A line as it is kept: one line, bounded, without control characters."""
    return _CONTROL.sub("", line.replace("\n", " ⏎ ").replace("\t", " "))[:LINE_LIMIT].strip()

"""The table that nvidia-smi draws when it is asked for nothing, from driver 418 on.

A card is two rows (up to 450) or three (with a row for MIG), closed by a rule. The heading says how many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from steelyard.devices.drawn import Group, groups
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged
from steelyard.devices.text import (
    UnreadableError,
    celsius,
    known,
    mib,
    milliwatts,
    pci,
    percent,
    used_of_total,
    whole,
)
from steelyard.devices.vendors.nvidia_words import FAMILY, TOOL, ecc_sign, lost_card, word_signs
from steelyard.model.health import DeviceHolder, Health, Sign, SignCode, SignSource

NAME = "table"

_VERSIONS = re.compile(r"NVIDIA-SMI +([0-9.]{1,20}) +Driver Version: +([0-9.]{1,20})")
_CARD = re.compile(r"([0-9]{1,4}) +(\S.{0,80}?) +(On|Off|N/A|ERR!)")
_TYPES = frozenset({"C", "G", "C+G", "M+C"})
_CELLS = 3
_MODES = {"enabled": True, "disabled": False}


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands above the cards."""

    version: str | None
    driver: str | None
    rows: int  # of a card


def _recognises(output: Output) -> bool:
    return any("NVIDIA-SMI" in line.text and "Driver Version" in line.text for line in output.lines[:20])


def _parse(output: Output) -> Parsed:
    parts = groups(output.lines)
    head, cards, processes = _sections(parts)
    holders = _holders(processes)
    readings, problems = [], []
    for group in cards:
        found = _card(group, head)
        if isinstance(found, Problem):
            problems.append(found)
            continue
        if not found.complete:
            problems.append(_incomplete(group))
        elif holders is not None and found.index is not None:
            found = replace(found, holders=tuple(holders.get(found.index, ())))
        readings.append(found)
    for lost in filter(None, (lost_card(line, NAME) for line in output.lines)):
        readings.append(lost)
        problems += [] if lost.complete else [Problem(ProblemCode.ROW_INCOMPLETE, lost.line)]
    listed = holders is not None and bool(readings)
    return Parsed(tuple(readings), tuple(problems), head.version, head.driver, processes=listed)


def _sections(parts: Sequence[Group]) -> tuple[_Head, list[Group], list[Group] | None]:
    """The heading, the groups of cards, and those of processes (None where no list of them is whole)."""
    version = driver = None
    rows = 0
    cards: list[Group] = []
    partitions = False  # a table of MIG devices has other columns
    for place, group in enumerate(parts):
        text = " ".join(cell for row in group.rows for cell in row)
        versions = _VERSIONS.search(text[:400])
        if versions is not None:
            version, driver = versions[1], versions[2]
        elif group.has("Bus-Id", "Memory-Usage"):
            rows = len(group.rows)
        elif group.has("Processes:"):
            return _Head(version, driver, rows), cards, list(parts[place + 1 :])
        elif group.has("MIG devices:"):
            partitions = True
        elif rows and not partitions:
            cards.append(group)
    return _Head(version, driver, rows), cards, None


def _incomplete(group: Group) -> Problem:
    return Problem(ProblemCode.ROW_INCOMPLETE, group.text, group.lines[0].number)


def _card(group: Group, head: _Head) -> Reading | Problem:
    first = group.rows[0]
    named = _CARD.fullmatch(first[0]) if len(first) == _CELLS else None
    if named is None:
        return _incomplete(group)
    base = Reading(family=FAMILY, tool=TOOL, layout=NAME, complete=True, line=group.text, index=int(named[1]))
    try:
        # A name that the column is too narrow for is not the model's.
        cut = named[2].endswith("...")
        model = None if cut else named[2]
        other: dict[str, str | int] = {"name_cut": named[2]} if cut else {}
        base = replace(base, pci=pci(first[1].split()[0]), model=model, driver=head.driver, other=other)
        if not group.closed or len(group.rows) != head.rows or any(len(row) != _CELLS for row in group.rows):
            return incomplete(base, group.text)
        return _figures(base, group)
    except (UnreadableError, IndexError):
        return incomplete(base, group.text)


def _figures(base: Reading, group: Group) -> Reading:
    """The figures of a card whose rows are all there. Raises UnreadableError, IndexError."""
    first, second = group.rows[0], group.rows[1]
    _, temperature, _, *power = second[0].split()
    draw, slash, cap = " ".join(power).partition("/")
    if not slash:
        raise UnreadableError(second[0][:80])
    used, total = used_of_total(second[1])
    utilisation, *compute = second[2].split()
    reading = replace(
        base,
        ecc_uncorrected=whole(first[2]),
        temperature=celsius(temperature),
        power=milliwatts(draw),
        power_limit=milliwatts(cap),
        memory_used=used,
        memory=total,
        utilisation=percent(utilisation),
        mig=_mig(group.rows[2][2]) if len(group.rows) > 2 else None,
    )
    return judged(reading, _signs(reading, group, " ".join(compute)))


def _mig(text: str) -> bool | None:
    plain = known(text)
    if plain is not None and plain.lower().rstrip("*") not in _MODES:
        raise UnreadableError(text[:80])
    return None if plain is None else _MODES[plain.lower().rstrip("*")]


def _signs(reading: Reading, group: Group, compute: str) -> Iterable[Sign]:
    yield from word_signs(" ".join(cell for row in group.rows for cell in row))
    yield from ecc_sign(reading.ecc_uncorrected)
    if compute == "Prohibited":
        yield Sign(SignCode.COMPUTE_OFF, Health.UNHEALTHY, SignSource.TOOL, f"compute mode {compute}")


def _holders(parts: Sequence[Group] | None) -> dict[int, list[DeviceHolder]] | None:
    """Index of a card → the processes listed for it; None where the list is not there or not whole."""
    if parts is None or not parts or not parts[-1].closed:
        return None
    found: dict[int, list[DeviceHolder]] = {}
    for row in (row for group in parts for row in group.rows):
        words = row[0].split() if len(row) == 1 else []
        if words[:2] == ["No", "running"]:
            continue
        kinds = [place for place, word in enumerate(words) if word in _TYPES]
        if not kinds or kinds[0] < 2 or not words[0].isdigit() or not words[kinds[0] - 1].isdigit():
            return None  # whose process it is can't be told, so none of them is told
        pid, name = int(words[kinds[0] - 1][:10]), " ".join(words[kinds[0] + 1 : -1])
        holder = DeviceHolder(pid, name[:120] or None, _amount(words[-1]))
        found.setdefault(int(words[0][:6]), []).append(holder)
    return found


def _amount(text: str) -> int | None:
    try:
        return mib(text)
    except UnreadableError:
        return None


TABLE = Layout(FAMILY, TOOL, NAME, _recognises, _parse)

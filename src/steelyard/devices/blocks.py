"""Devices of an indented key-value text, one block each, and when a block is proven whole.

A block begins at a heading line that names the device and ends at the next. It is whole when each key that
its layout is known to print stands in it exactly once with a value of its form: a missing key may be one
that was cut off, and with it what speaks against the device's health.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from steelyard.devices.cardtable import READERS
from steelyard.devices.csvrows import IDENTITY, Cell, Signs, Value, no_signs, with_values
from steelyard.devices.output import Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, Reading, incomplete, judged, kept
from steelyard.devices.text import Entry, UnreadableError, entries, known


@dataclass(frozen=True, slots=True)
class Key:
    """A key by the end of its path, the name of what it tells, and the form of its value.

    `needed`: a block without it is not whole. `many`: it may stand there several times; all are handed on.
    """

    name: str
    path: tuple[str, ...]
    read: Cell
    needed: bool = True
    many: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """A heading's match, the lines below it, and what stands in them."""

    head: re.Match[str]
    line: Line
    lines: tuple[Line, ...]

    @property
    def text(self) -> str:
        """Heading and lines as one."""
        return "\n".join([self.line.text.strip(), *(line.text.strip() for line in self.lines)])


@dataclass(frozen=True, slots=True)
class BlockValues:
    """What a block's keys say: the first of each, all of those that may be many, and what is amiss."""

    values: dict[str, Value]
    many: dict[str, list[Value]]
    whole: bool
    first_bad: str  # a key that is missing or not of its form; empty where none is


def blocks(lines: Sequence[Line], head: re.Pattern[str]) -> tuple[tuple[Line, ...], list[Block]]:
    """The lines ahead of the first heading, and the blocks. A heading line without an end begins no block."""
    before: list[Line] = []
    found: list[tuple[re.Match[str], Line, list[Line]]] = []
    for line in lines:
        match = head.fullmatch(line.text) if len(line.text) <= 200 else None
        if match is not None and line.whole:
            found.append((match, line, []))
        elif found:
            found[-1][2].append(line)
        else:
            before.append(line)
    return tuple(before), [Block(match, line, tuple(rest)) for match, line, rest in found]


Rename: TypeAlias = Callable[[str], str]


def read_block(block: Block, keys: Iterable[Key], rename: Rename = str.lower) -> BlockValues:
    """Reads the keys of a block. Raises nothing.

    `rename` makes one key of several that differ in a number; what it gives is in lower case.
    """
    by_path: dict[tuple[str, ...], list[str | None]] = {}
    wanted = list(keys)
    ends = {tuple(part.lower() for part in key.path) for key in wanted}
    lengths = sorted({len(end) for end in ends})
    for entry in entries(block.lines):
        for end in _endings(entry, lengths, rename):
            if end in ends:
                by_path.setdefault(end, []).append(entry.value)
    values: dict[str, Value] = {}
    many: dict[str, list[Value]] = {}
    bad = ""
    for key in wanted:
        texts = by_path.get(tuple(part.lower() for part in key.path), [])
        read = _read(key, texts)
        if read is None:
            bad = bad or " / ".join(key.path)
        elif key.many:
            many[key.name] = read
        elif read:
            values[key.name] = read[0]
    return BlockValues(values, many, not bad and all(line.whole for line in block.lines), bad)


def _endings(entry: Entry, lengths: Sequence[int], rename: Rename) -> Iterable[tuple[str, ...]]:
    path = tuple(rename(part) for part in entry.path)
    return [path[-length:] for length in lengths if length <= len(path)]


def _read(key: Key, texts: Sequence[str | None]) -> list[Value] | None:
    """The values; none where the key may be missing and is; None where it is amiss."""
    if not texts:
        return None if key.needed else []
    if len(texts) > 1 and not key.many:
        return None
    try:
        return [key.read(text if text is not None else "") for text in texts]
    except UnreadableError:
        return None


def told(lines: Iterable[Line], pattern: re.Pattern[str]) -> str | None:
    """What the first whole line in which `pattern` is found says in its first group that matched."""
    for line in lines:
        match = pattern.search(line.text) if line.whole and len(line.text) <= 400 else None
        if match is not None:
            return next((group.strip() for group in match.groups() if group is not None), None)
    return None


def told_number(lines: Iterable[Line], pattern: re.Pattern[str]) -> int | None:
    """The same as a number; the pattern lets nothing but digits through."""
    found = told(lines, pattern)
    return None if found is None else int(found)


Combine: TypeAlias = Callable[[BlockValues], Iterable[tuple[str, Value]]]


def as_read(values: BlockValues) -> Iterable[tuple[str, Value]]:
    """The values under their keys' own names."""
    return values.values.items()


def read_blocks(
    output: Output,
    base: Reading,
    head: re.Pattern[str],
    keys: Sequence[Key],
    signs: Signs = no_signs,
    combine: Combine = as_read,
    rename: Rename = str.lower,
) -> tuple[tuple[Line, ...], Parsed]:
    """The lines ahead of the first block, and every block as a reading. `head` has named groups.

    `combine` makes a reading's fields of a whole block's values; it may raise UnreadableError.
    """
    before, found = blocks(output.lines, head)
    readings: list[Reading] = []
    problems = [
        Problem(ProblemCode.ROW_INCOMPLETE, kept(line.text), line.number)
        for line in _headless(before)[:1]
    ]
    for block in found:
        who = with_values(replace(base, line=kept(block.text)), _named(block.head))
        values = read_block(block, keys, rename)
        fields = _combined(values, combine) if values.whole else None
        if fields is not None:
            reading = with_values(who, fields)
            readings.append(judged(reading, signs(reading)))
            continue
        identity = [(name, value) for name, value in values.values.items() if name in IDENTITY]
        readings.append(incomplete(with_values(who, identity), values.first_bad or block.text))
        problems.append(Problem(ProblemCode.ROW_INCOMPLETE, kept(block.text), block.line.number))
    return before, Parsed(readings=tuple(readings), problems=tuple(problems))


def _headless(before: Iterable[Line]) -> list[Line]:
    """Indented lines ahead of the first heading: they belong to a block whose own heading was not read."""
    return [line for line in before if line.text[:1] in (" ", "\t")]


def _named(head: re.Match[str]) -> list[tuple[str, Value]]:
    return [(name, READERS.get(name, known)(text)) for name, text in head.groupdict().items() if text]


def _combined(values: BlockValues, combine: Combine) -> list[tuple[str, Value]] | None:
    try:
        return list(combine(values))
    except UnreadableError:
        return None

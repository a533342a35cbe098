"""A tool's output as the parsers see it, and what a layout of it is.

An output is cleaned and bounded once; a line that the text ends in without a line end is not `whole`:
it may have been cut off, so nothing is read from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from steelyard.devices.reading import TEXT_LIMIT, Parsed, Problem, ProblemCode, clean, kept

LINE_MAX = 16_384  # characters of a line of a table; longer ones are no row of any tool
LINES_MAX = 200_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line that holds something: its number in the text from 1, and whether it had an end."""

    number: int
    text: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Output:
    """One output: the whole text, its lines, and what was left out of it."""

    text: str
    lines: tuple[Line, ...]
    problems: tuple[Problem, ...] = ()


LayoutParser: TypeAlias = Callable[[Output], Parsed]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way in which a tool prints. `recognises` looks at content alone; `parse` never raises."""

    family: str
    tool: str
    name: str
    recognises: Callable[[Output], bool]
    parse: LayoutParser


def output_of(text: str) -> Output:
    """The text cleaned, cut to what is looked at, and split into lines. Never raises."""
    problems: list[Problem] = []
    if len(text) > TEXT_LIMIT:
        problems.append(Problem(ProblemCode.TOO_LONG, kept(text[:LINE_MAX].split("\n", 1)[0])))
        text = text[:TEXT_LIMIT]
    plain = clean(text)
    parts = plain.split("\n")
    last = len(parts)
    lines = []
    for number, part in enumerate(parts[:LINES_MAX], 1):
        if not part.strip():
            continue
        if len(part) > LINE_MAX:
            problems.append(Problem(ProblemCode.TOO_LONG, kept(part), number))
            continue
        lines.append(Line(number, part.rstrip(), number < last))
    if last > LINES_MAX:
        problems.append(Problem(ProblemCode.TOO_LONG, kept(parts[LINES_MAX]), LINES_MAX + 1))
    return Output(plain, tuple(lines), tuple(problems))

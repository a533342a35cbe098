"""Texts by which a tool says that it failed or found nothing, and what loaders and shells say for it.

A text is looked for within a line, letter case ignored. Each vendor's file adds its own texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.devices.output import Layout, Line, Output
from steelyard.devices.reading import Parsed, Problem, ProblemCode, kept
from steelyard.model.health import SignCode

FAILURES = "failures"  # the name of the layout that holds nothing but such texts
_PROBLEMS_MAX = 100  # of one output; what repeats a thousand times is told often enough


@dataclass(frozen=True, slots=True)
class FailureText:
    """A text, what it means for the output, and which step it says failed."""

    text: str
    code: ProblemCode
    sign: SignCode | None = None


#: Of the dynamic loader, the shell and the kernel: whichever tool was called.
COMMON = (
    FailureText("error while loading shared libraries", ProblemCode.TOOL_ERROR, SignCode.LIBRARY_MISSING),
    FailureText("cannot open shared object file", ProblemCode.TOOL_ERROR, SignCode.LIBRARY_MISSING),
    FailureText("permission denied", ProblemCode.TOOL_ERROR, SignCode.PERMISSION_DENIED),
    FailureText("operation not permitted", ProblemCode.TOOL_ERROR, SignCode.PERMISSION_DENIED),
    FailureText("command not found", ProblemCode.TOOL_ERROR, SignCode.TOOL_MISSING),
)


def failure_in(line: Line, texts: Sequence[FailureText]) -> Problem | None:
    """The problem that a line tells of, by the first of the texts that stands in it; None where none does."""
    lower = line.text.lower()
    for one in texts:
        if one.text.lower() in lower:
            return Problem(one.code, kept(line.text), line.number, one.sign)
    return None


def failures_in(lines: Iterable[Line], texts: Sequence[FailureText] = COMMON) -> tuple[Problem, ...]:
    """The problems that lines tell of; lines that tell of none are passed over."""
    found = []
    for line in lines:
        problem = failure_in(line, texts)
        if problem is not None:
            found.append(problem)
        if len(found) == _PROBLEMS_MAX:
            break
    return tuple(found)


def unusable(lines: Sequence[Line]) -> tuple[Problem, ...]:
    """For an output in no layout: the failures it tells of, else that its first line was not recognised."""
    found = failures_in(lines)
    if found or not lines:
        return found
    return (Problem(ProblemCode.UNRECOGNISED, kept(lines[0].text), lines[0].number),)


def failure_layout(family: str, tool: str, texts: Sequence[FailureText]) -> Layout:
    """A layout for outputs that hold a failure text of the vendor. It stands last among a tool's layouts."""

    def recognises(output: Output) -> bool:
        return any(failure_in(line, texts) for line in output.lines)

    def parse(output: Output) -> Parsed:
        return Parsed(problems=failures_in(output.lines, texts))

    return Layout(family, tool, FAILURES, recognises, parse)

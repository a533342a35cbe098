"""Which tools can be read, in which layouts, and whose text an output is.

Two vendors may ship a tool of the same name (xpu-smi, mx-smi): whose it is follows from what it printed,
never from its name. What is no layout of the tool that was meant gives problems and no device.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import MappingProxyType

from steelyard.devices import hami
from steelyard.devices.failing import unusable
from steelyard.devices.output import Layout, Output, output_of
from steelyard.devices.reading import PROBLEMS_MAX, READINGS_MAX, Parsed, Problem, ProblemCode, kept
from steelyard.devices.vendors import (
    amd,
    ascend,
    biren,
    cambricon,
    cpu,
    enflame,
    gaudi,
    hygon,
    iluvatar,
    intel,
    kunlunxin,
    metax,
    moorethreads,
    neuron,
    nvidia,
    thead,
    tpu,
)
from steelyard.model.health import SignCode

KERNEL_LOG = "kernel-log"  # whose lines are no list: none of them speaks against a device, or some do

#: One line a vendor.
_VENDORS: tuple[tuple[Layout, ...], ...] = (
    nvidia.LAYOUTS,
    ascend.LAYOUTS,
    amd.LAYOUTS,
    hygon.LAYOUTS,
    cambricon.LAYOUTS,
    cpu.LAYOUTS,
    metax.LAYOUTS,
    moorethreads.LAYOUTS,
    iluvatar.LAYOUTS,
    kunlunxin.LAYOUTS,
    intel.LAYOUTS,
    gaudi.LAYOUTS,
    neuron.LAYOUTS,
    enflame.LAYOUTS,
    biren.LAYOUTS,
    thead.LAYOUTS,
    tpu.LAYOUTS,
    hami.LAYOUTS,
)  # fmt: skip


def _by_tool(groups: Iterable[Iterable[Layout]]) -> dict[str, tuple[Layout, ...]]:
    tools: dict[str, tuple[Layout, ...]] = {}
    for layout in (layout for group in groups for layout in group):
        tools[layout.tool] = (*tools.get(layout.tool, ()), layout)
    return tools


#: Tool → its layouts, of every vendor that has a tool of that name. Order matters: the first that recognises.
PARSERS = MappingProxyType(_by_tool(_VENDORS))


def layouts(tool: str, family: str | None = None) -> tuple[Layout, ...]:
    """The layouts of a tool, of one family where that is given. Raises KeyError for an unknown tool."""
    return tuple(layout for layout in PARSERS[tool] if family is None or layout.family == family)


def parse(tool: str, layout: str | None, text: str, *, family: str | None = None) -> Parsed:
    """What an output of `tool` holds. Raises KeyError for a tool or layout that is not known, else nothing.

    `layout` is what was asked of the tool; where the text is not that (a failure text, an older release),
    or where it is None, the layout is told from the text. `family` is whose tool was meant: the text of
    another vendor's tool of the same name gives a `tool-foreign` problem and no device.
    """
    candidates = layouts(tool)
    if layout is not None and all(layout != candidate.name for candidate in candidates):
        raise KeyError(layout)
    output = output_of(text)
    if not output.lines:
        return Parsed(problems=(*output.problems, Problem(ProblemCode.UNRECOGNISED, "")))
    found = recognised(candidates, output, layout, family)
    if found is None:
        return Parsed(problems=(*output.problems, *unusable(output.lines)))
    if family is not None and found.family != family:
        line = output.lines[0]
        foreign = Problem(ProblemCode.TOOL_FOREIGN, kept(line.text), line.number, SignCode.TOOL_FOREIGN)
        return Parsed(problems=(*output.problems, foreign))
    parsed = found.parse(output)
    if not (parsed.readings or parsed.problems or parsed.processes or tool == KERNEL_LOG):
        # A heading and nothing that could be read below it is not the same as no device.
        parsed = replace(parsed, problems=unusable(output.lines))
    problems = (*output.problems, *parsed.problems)
    if len(parsed.readings) > READINGS_MAX:
        rest = parsed.readings[READINGS_MAX].line
        problems = (Problem(ProblemCode.TOO_LONG, rest), *problems)
    readings = parsed.readings[:READINGS_MAX]
    return replace(parsed, readings=readings, problems=problems[:PROBLEMS_MAX], layout=found.name)


def recognised(
    candidates: Iterable[Layout], output: Output, layout: str | None = None, family: str | None = None
) -> Layout | None:
    """The layout that the output is in: what was asked for first, then those of the family that was meant."""

    def rank(one: Layout) -> tuple[bool, bool]:
        return one.name != layout, family is not None and one.family != family

    ranked = sorted(candidates, key=rank)
    return next((one for one in ranked if one.recognises(output)), None)

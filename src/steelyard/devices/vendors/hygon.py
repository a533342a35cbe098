"""hy-smi of Hygon, whose keys say DCU or, after a rename, HCU; older kits ship it as rocm-smi.

Memory is printed in MiB where AMD's tool prints bytes, and `Available memory` is what is free, not the total.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.devices.failing import FailureText, failure_layout
from steelyard.devices.output import Layout, Output
from steelyard.devices.reading import Parsed, ProblemCode, Reading
from steelyard.devices.vendors.rocm_form import Key, is_json, is_lines, keys, parse_json, parse_lines
from steelyard.model.health import SignCode

FAMILY = "hygon-dcu"
TOOLS = ("hy-smi", "rocm-smi")
JSON, LINES = "json-dcu", "lines-dcu"

_KEYS = keys(("junction", "edge", "core"))
#: Words that AMD's own tool never prints.
_OWN = ("DCU use", "HCU use", "DCU[", "HCU[", "Haiguang", "HCU memory", "DCU memory", "vram Total")
_FAILURES = (FailureText("Driver not initialized", ProblemCode.TOOL_ERROR, SignCode.DRIVER_MISSING),)


def is_own(output: Output) -> bool:
    """Whether the text is of Hygon's tool, whatever it is called."""
    return any(word in line.text for line in output.lines for word in _OWN)


def _own(recognises: Callable[[Output], bool]) -> Callable[[Output], bool]:
    return lambda output: recognises(output) and is_own(output)


def _reads(
    parse: Callable[[Output, Reading, Sequence[Key]], Parsed], tool: str, layout: str
) -> Callable[[Output], Parsed]:
    base = Reading(family=FAMILY, tool=tool, layout=layout, complete=True, line="")
    return lambda output: parse(output, base, _KEYS)


LAYOUTS = tuple(
    layout
    for tool in TOOLS
    for layout in (
        Layout(FAMILY, tool, JSON, _own(is_json), _reads(parse_json, tool, JSON)),
        Layout(FAMILY, tool, LINES, _own(is_lines), _reads(parse_lines, tool, LINES)),
        failure_layout(FAMILY, tool, _FAILURES),
    )
)

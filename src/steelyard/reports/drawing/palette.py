"""Colours by meaning. Their values stand in page.css, for light and dark; here are only their names.

Hues are those of Okabe and Ito (2008), which people who see fewer colours can tell apart. What is not
use (idle, unavailable, unknown) is told by tone and hatching, so that it survives a black-and-white print.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from steelyard.reports.drawing.markup import Markup, el

#: How many holders get a colour of their own; later ones share the last.
HOLDERS = 6
IDLE = ("idle.schedulable", "idle.reserved", "idle.fragmented", "idle.blocked", "idle.draining")
OTHER_STATES = ("unavailable.planned", "unavailable.unplanned", "unavailable", "unknown")


def holder_fills(names: Iterable[str]) -> dict[str, str]:
    """A fill for each name, by its place among all of them, so that one name has one colour on a page."""
    ordered = sorted(set(names))
    return {name: f"f-h{min(index, HOLDERS - 1) + 1}" for index, name in enumerate(ordered)}


def state_fill(state: str) -> str:
    """The fill of a state of capacity: `idle.*`, `unavailable.*`, `unknown`."""
    return "f-" + state.replace(".", "-")


def stage_fill(state: str) -> str:
    """The fill of a stage of a workload: waiting, starting, running, stopping, releasing."""
    return f"f-s-{state}"


def patterns() -> Markup:
    """The hatchings, once a page. They are referred to by page.css."""
    made = [
        _hatch("p-unavailable", "M0 6 L6 0", 6),
        _hatch("p-unavailable-planned", "M0 0 L6 6", 6),
        _hatch("p-reserved", "M0 3 L6 3", 6),
        _hatch("p-blocked", "M3 0 L3 6", 6),
        el(
            "pattern",
            el("rect", width=6, height=6, cls="p-ground"),
            el("circle", cx=2, cy=2, r=1.1, cls="p-dot"),
            id="p-unknown",
            width=5,
            height=5,
            patternUnits="userSpaceOnUse",
        ),
    ]
    return el("svg", el("defs", made), cls="defs", width=0, height=0, aria_hidden="true")


def _hatch(name: str, path: str, size: int) -> Markup:
    return el(
        "pattern",
        el("rect", width=size, height=size, cls="p-ground"),
        el("path", d=path, cls="p-line"),
        id=name,
        width=size,
        height=size,
        patternUnits="userSpaceOnUse",
    )


def legend(entries: Mapping[str, str]) -> Markup:
    """Fill name → label, as a list with a sample of each."""
    return el(
        "ul",
        [
            el("li", el("svg", el("rect", width=14, height=14, rx=2, cls=fill), width=14, height=14), label)
            for fill, label in entries.items()
        ],
        cls="legend",
    )

"""Devices as cells that wrap, amounts as bars, limits as bullet bars: small pictures for rows of pages.

A cell tells its state by outline, letter and fill; what is held of a share fills it from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.reports.drawing.devices import Part
from steelyard.reports.drawing.markup import Markup, el, number

SIDE = 26
#: look → outline. What is not there to be had has cut corners; what nobody knows a broken line.
_INNER = SIDE - 1
_ROUND = (
    f"M4.5 1H{_INNER - 3.5}Q{_INNER} 1 {_INNER} 4.5V{_INNER - 3.5}Q{_INNER} {_INNER} {_INNER - 3.5} {_INNER}"
)
_OUTLINES = {
    "round": f"{_ROUND}H4.5Q1 {_INNER} 1 {_INNER - 3.5}V4.5Q1 1 4.5 1Z",
    "cut": f"M8 1H{_INNER - 7}L{_INNER} 8V{_INNER - 7}L{_INNER - 7} {_INNER}H8L1 {_INNER - 7}V8Z",
}
CUT = frozenset({"unavailable", "quarantined"})


@dataclass(frozen=True, slots=True)
class Cell:
    """One device. `look` is free, part, held, reserved, unavailable, quarantined or unknown; the parts, from
    below, sum to the capacity. `about` is all of it in words, for the pointer and for who does not see it.
    `marked`: something speaks against the device, or somebody flagged it."""

    href: str
    look: str
    letter: str
    about: str
    capacity: int
    parts: tuple[Part, ...]
    marked: bool = False


def cells(devices: Sequence[Cell]) -> Markup:
    """The devices of one node, each a link."""
    return el("div", [el("a", cell_picture(cell), href=cell.href) for cell in devices], cls="cells")


def cell_picture(cell: Cell) -> Markup:
    """One cell."""
    filled, bottom = [], float(_INNER)
    for part in cell.parts:
        height = (_INNER - 1) * part.quantity / max(1, cell.capacity)
        if height:
            bottom -= height
            filled.append(el("rect", x=1, y=bottom, width=_INNER - 1, height=height, cls=part.fill))
    outline = _OUTLINES["cut" if cell.look in CUT else "round"]
    return el(
        "svg",
        el("title", cell.about),
        filled,
        el("path", d=outline),
        el("text", cell.letter, x=SIDE // 2, y=SIDE // 2 + 4),
        el("path", d=f"M{SIDE - 10} 0H{SIDE}V10Z", cls="corner") if cell.marked else None,
        viewBox=f"0 0 {SIDE} {SIDE}",
        cls=f"cell l-{cell.look}",
        role="img",
    )


@dataclass(frozen=True, slots=True)
class Bullet:
    """A limit and what is used of it. `nominal` None: no limit; `borrowed`, of the use, is above it.
    `potential` is the most that could ever be had, None where nothing bounds it."""

    used: int
    nominal: int | None
    potential: int | None


def bullet(of: Bullet, about: str) -> Markup:
    """Use as a bar, what is owned as the ground, the potential as the whole; a mark where owning ends."""
    whole = max(of.used, of.nominal or 0, of.potential or 0, 1)
    owned = min(of.used, of.nominal) if of.nominal is not None else of.used
    pieces = [
        el("rect", width=1000, height=14, cls="b-potential"),
        _piece(0, of.nominal or 0, whole, "b-nominal", 0, 14),
        _piece(0, owned, whole, "b-used", 4, 6),
        _piece(owned, of.used, whole, "b-borrowed", 4, 6),
    ]
    if of.nominal is not None and 0 < of.nominal < whole:
        x = 1000 * of.nominal / whole
        pieces.append(el("line", x1=x, x2=x, y1=0, y2=14, cls="b-mark"))
    return el(
        "svg",
        el("title", about),
        [piece for piece in pieces if piece],
        viewBox="0 0 1000 14",
        preserveAspectRatio="none",
        cls="bullet",
        role="img",
        aria_label=about,
    )


def _piece(start: int, end: int, whole: int, cls: str, y: int, height: int) -> Markup | None:
    if end <= start:
        return None
    x, width = 1000 * start / whole, 1000 * (end - start) / whole
    return el("rect", x=number(x), y=y, width=number(width), height=height, cls=cls)

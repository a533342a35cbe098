"""When each workload waited, started, ran, stopped and gave back: one line each, attempt after attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from steelyard.reports.drawing.markup import Markup, el
from steelyard.reports.drawing.scale import TimeAxis

WIDTH, ROW, _LEFT, _RIGHT, _TOP = 900, 24, 272, 30, 8
_BAR = 12
#: How an end is drawn, beside its colour: what tells outcomes apart must not be colour alone.
GLYPHS: Mapping[str, str] = {
    "succeeded": "✓",
    "failed": "✕",
    "cancelled": "■",
    "withdrawn": "□",
    "preempted": "↻",
    "timed-out": "T",
    "reclaimed": "I",
    "lost": "?",
}


@dataclass(frozen=True, slots=True)
class Tile:
    """A stretch of one colour. A thin one is a wait."""

    t0: int
    t1: int
    fill: str
    tooltip: str
    thin: bool = False


@dataclass(frozen=True, slots=True)
class Mark:
    """An end: at which instant, with which outcome."""

    at: int
    outcome: str
    tooltip: str


@dataclass(frozen=True, slots=True)
class Line:
    """One workload. `note` stands small under its name."""

    label: str
    note: str
    tiles: tuple[Tile, ...]
    marks: tuple[Mark, ...] = ()
    hatched: bool = False  # simulated


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch behind all lines, such as a cluster that did not answer."""

    t0: int
    t1: int
    label: str
    fill: str = "band"


@dataclass(frozen=True, slots=True)
class Gantt:
    """All of it. Lines stand in their order, under the heading of their group."""

    title: str
    window: tuple[int, int]
    groups: Sequence[tuple[str, Sequence[Line]]]
    bands: Sequence[Band] = field(default_factory=tuple)
    offset: int = 0  # µs that the reader's clock is ahead of UTC

    @property
    def height(self) -> int:
        """Of the whole picture."""
        return _TOP + sum(ROW * (1 + len(lines)) for _, lines in self.groups) + 34

    def draw(self) -> Markup:
        """The picture."""
        time = TimeAxis(*self.window, _LEFT, WIDTH - _RIGHT, self.offset)
        bottom = float(self.height - 30)
        parts: list[Markup] = [_band(band, time, bottom) for band in self.bands]
        parts += _time_marks(time, bottom)
        y = float(_TOP)
        for heading, lines in self.groups:
            parts.append(el("text", heading, x=4, y=y + ROW - 8, cls="group"))
            y += ROW
            for line in lines:
                parts.append(_line(line, time, y))
                y += ROW
        return el(
            "svg",
            el("title", self.title),
            parts,
            viewBox=f"0 0 {WIDTH} {self.height}",
            cls="chart",
            role="img",
            aria_label=self.title,
        )


def _time_marks(time: TimeAxis, bottom: float) -> list[Markup]:
    parts = []
    for at, label in time.ticks():
        x = time.x(at)
        parts.append(el("line", x1=x, x2=x, y1=_TOP, y2=bottom, cls="grid"))
        parts.append(el("text", label, x=x, y=bottom + 16, cls=f"tick {time.anchor(at)}"))
    parts.append(el("line", x1=time.left, x2=time.right, y1=bottom, y2=bottom, cls="axis"))
    return parts


def _band(band: Band, time: TimeAxis, bottom: float) -> Markup:
    left, right = time.x(band.t0), time.x(band.t1)
    return el(
        "rect",
        el("title", band.label),
        x=left,
        y=_TOP,
        width=max(1.0, right - left),
        height=bottom - _TOP,
        cls=band.fill,
    )


def _line(line: Line, time: TimeAxis, y: float) -> Markup:
    middle = y + ROW / 2
    label = el(
        "text",
        _shortened(line.label, 22),
        el("tspan", f"  {_shortened(line.note, 24)}", cls="note") if line.note else None,
        el("title", f"{line.label} {line.note}"),
        x=16,
        y=middle + 4,
        cls="name",
    )
    bars = [_tile(tile, time, middle) for tile in line.tiles if tile.t1 > tile.t0]
    ends = [
        el(
            "text",
            GLYPHS.get(mark.outcome, "•"),
            el("title", mark.tooltip),
            x=time.x(mark.at) + 3,
            y=middle + (-1 if mark.outcome == "preempted" else 5),
            cls=f"end-{mark.outcome}",
        )
        for mark in line.marks
    ]
    return el("g", label, bars, ends, cls="line sim" if line.hatched else "line")


def _tile(tile: Tile, time: TimeAxis, middle: float) -> Markup:
    left, right = time.x(tile.t0), time.x(tile.t1)
    height = 4 if tile.thin else _BAR
    return el(
        "rect",
        el("title", tile.tooltip),
        x=left,
        y=middle - height / 2,
        width=max(0.8, right - left),
        height=height,
        cls=tile.fill,
    )


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"

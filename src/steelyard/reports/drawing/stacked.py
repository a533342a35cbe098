"""Who had what, when: stacked areas of step functions under a line of capacity."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from steelyard.model.units import format_quantity
from steelyard.reports.drawing.markup import Markup, el, number
from steelyard.reports.drawing.scale import AmountAxis, TimeAxis

WIDTH, HEIGHT = 860, 210
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 12, 30

_GIB = 1024  # MiB

Segment = tuple[int, int, int]  # (t0, t1, quantity)


@dataclass(frozen=True, slots=True)
class Layer:
    """One kind of use. `tooltip` is its label with what it sums to."""

    label: str
    fill: str
    segments: tuple[Segment, ...]
    tooltip: str = ""


def steps(segments: Sequence[Segment], marks: Sequence[int]) -> list[int]:
    """The sum of the segments in each interval between two marks. Marks are sorted and hold every border."""
    changes: dict[int, int] = defaultdict(int)
    for t0, t1, quantity in segments:
        changes[t0] += quantity
        changes[t1] -= quantity
    level, levels = 0, []
    for mark in marks[:-1]:
        level += changes.get(mark, 0)
        levels.append(level)
    return levels


def borders(groups: Sequence[Sequence[Segment]], t0: int, t1: int) -> list[int]:
    """Every instant at which something changes, with both ends of the window."""
    found = {t0, t1}
    for segments in groups:
        for start, end, _ in segments:
            found.update(at for at in (start, end) if t0 < at < t1)
    return sorted(found)


def clip(segments: Sequence[Segment], t0: int, t1: int) -> list[Segment]:
    """The parts of the segments within the window."""
    cut = ((max(start, t0), min(end, t1), quantity) for start, end, quantity in segments)
    return [segment for segment in cut if segment[0] < segment[1]]


def stacked(
    layers: Sequence[Layer],
    capacity: Sequence[Segment],
    window: tuple[int, int],
    resource: str,
    title: str,
    shift: int = 0,
) -> Markup:
    """The picture. `resource` is the class whose unit the quantities have; layers stack in their order.
    Times are shown in the zone that is `shift` µs ahead of UTC."""
    t0, t1 = window
    clipped = [clip(layer.segments, t0, t1) for layer in layers]
    roof = clip(capacity, t0, t1)
    marks = borders([*clipped, roof], t0, t1)
    levels = [steps(segments, marks) for segments in clipped]
    ceiling = steps(roof, marks)
    totals = [sum(column) for column in zip(*levels, strict=True)] if levels else [0] * (len(marks) - 1)
    time = TimeAxis(t0, t1, _LEFT, WIDTH - _RIGHT, shift)
    greatest = max([*totals, *ceiling, 1])
    unit = _GIB if resource == "memory" and greatest >= 2 * _GIB else 1
    amount = AmountAxis.over(greatest, HEIGHT - _BOTTOM, _TOP, unit=unit)
    base = [0] * (len(marks) - 1)
    areas = []
    for layer, level in zip(layers, levels, strict=True):
        top = [low + high for low, high in zip(base, level, strict=True)]
        path = _area(base, top, marks, time, amount)
        if path:
            areas.append(
                el("path", el("title", layer.tooltip or layer.label), d=path, cls=f"area {layer.fill}")
            )
        base = top
    line = el("path", d=_outline(ceiling, marks, time, amount), cls="capacity")
    return el(
        "svg",
        el("title", title),
        _grid(time, amount, resource),
        areas,
        line,
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        cls="chart",
        role="img",
        aria_label=title,
    )


def _grid(time: TimeAxis, amount: AmountAxis, resource: str) -> list[Markup]:
    parts = []
    for tick in amount.ticks():
        y = amount.y(tick)
        parts.append(el("line", x1=time.left, x2=time.right, y1=y, y2=y, cls="grid"))
        label = format_quantity(resource, tick)
        parts.append(el("text", label, x=time.left - 6.0, y=y + 4, cls="tick end"))
    for at, label in time.ticks():
        x = time.x(at)
        parts.append(el("line", x1=x, x2=x, y1=amount.bottom, y2=amount.bottom + 4, cls="axis"))
        parts.append(el("text", label, x=x, y=amount.bottom + 18, cls=f"tick {time.anchor(at)}"))
    parts.append(el("line", x1=time.left, x2=time.right, y1=amount.bottom, y2=amount.bottom, cls="axis"))
    return parts


def _area(
    low: Sequence[int], high: Sequence[int], marks: Sequence[int], time: TimeAxis, amount: AmountAxis
) -> str:
    """One closed figure for each run of intervals in which there is something."""
    figures, run = [], []
    for index, (below, above) in enumerate(zip(low, high, strict=True)):
        if above > below:
            run.append(index)
        elif run:
            figures.append(_figure(run, low, high, marks, time, amount))
            run = []
    if run:
        figures.append(_figure(run, low, high, marks, time, amount))
    return " ".join(figures)


def _figure(
    run: Sequence[int],
    low: Sequence[int],
    high: Sequence[int],
    marks: Sequence[int],
    time: TimeAxis,
    amount: AmountAxis,
) -> str:
    there = [(index, high[index]) for index in run]
    back = [(index, low[index]) for index in reversed(run)]
    points = [(time.x(marks[i + side]), amount.y(level)) for i, level in there for side in (0, 1)]
    points += [(time.x(marks[i + side]), amount.y(level)) for i, level in back for side in (1, 0)]
    return f"M{' L'.join(f'{number(x)} {number(y)}' for x, y in _thinned(points))} Z"


def _outline(levels: Sequence[int], marks: Sequence[int], time: TimeAxis, amount: AmountAxis) -> str:
    points = []
    for (start, end), level in zip(pairwise(marks), levels, strict=True):
        points += [(time.x(start), amount.y(level)), (time.x(end), amount.y(level))]
    return f"M{' L'.join(f'{number(x)} {number(y)}' for x, y in _thinned(points))}" if points else ""


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Without points that lie between two others on one level: they say nothing."""
    kept: list[tuple[float, float]] = []
    for point in points:
        if len(kept) > 1 and kept[-1][1] == kept[-2][1] == point[1]:
            kept[-1] = point
        elif not kept or kept[-1] != point:
            kept.append(point)
    return kept

"""What stands where and who has it: a card for each node, a square for each accelerator, bars beside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.reports.drawing.markup import Markup, el

_SIDE, _GAP, _PER_ROW = 26, 5, 8
_BAR_WIDTH, _BAR_HEIGHT = 8 * (_SIDE + _GAP) - _GAP, 14


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a device, in its unit, and what it is used for."""

    quantity: int
    fill: str


@dataclass(frozen=True, slots=True)
class DeviceBox:
    """One device. The parts sum to its capacity; a bar stands for CPU and memory."""

    label: str
    tooltip: str
    capacity: int
    parts: tuple[Part, ...]
    bar: bool = False
    alert: bool = False  # not available


@dataclass(frozen=True, slots=True)
class NodeCard:
    """One node with its devices. `badge` is what must not be overlooked, such as `simulated`."""

    name: str
    subtitle: str
    badge: str | None
    devices: tuple[DeviceBox, ...]


def device_map(cards: Sequence[NodeCard]) -> Markup:
    """All nodes; they wrap to the width there is."""
    return el("div", [_card(card) for card in cards], cls="nodes")


def _card(card: NodeCard) -> Markup:
    bars = [device for device in card.devices if device.bar]
    boxes = [device for device in card.devices if not device.bar]
    return el(
        "figure",
        el(
            "figcaption",
            el("strong", card.name),
            el("span", card.badge, cls="badge sim") if card.badge else None,
            el("span", card.subtitle, cls="sub"),
        ),
        _squares(boxes) if boxes else None,
        [_bar(bar) for bar in bars],
        cls="node",
    )


def _squares(boxes: Sequence[DeviceBox]) -> Markup:
    rows = -(-len(boxes) // _PER_ROW)
    width, height = min(len(boxes), _PER_ROW) * (_SIDE + _GAP), rows * (_SIDE + _GAP)
    return el(
        "svg",
        [
            _square(box, index % _PER_ROW * (_SIDE + _GAP) + 1.0, index // _PER_ROW * (_SIDE + _GAP) + 1.0)
            for index, box in enumerate(boxes)
        ],
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="img",
    )


def _square(box: DeviceBox, x: float, y: float) -> Markup:
    filled, top = [], y
    for part in box.parts:
        height = _SIDE * part.quantity / max(1, box.capacity)
        filled.append(el("rect", x=x, y=top, width=_SIDE, height=height, cls=part.fill))
        top += height
    frame = el("rect", x=x, y=y, width=_SIDE, height=_SIDE, rx=3, cls="frame alert" if box.alert else "frame")
    return el("g", el("title", box.tooltip), filled, frame)


def _bar(box: DeviceBox) -> Markup:
    filled, left = [], 1.0
    for part in box.parts:
        width = (_BAR_WIDTH - 2) * part.quantity / max(1, box.capacity)
        filled.append(el("rect", x=left, y=1, width=width, height=_BAR_HEIGHT - 2, cls=part.fill))
        left += width
    frame = el(
        "rect",
        x=1,
        y=1,
        width=_BAR_WIDTH - 2,
        height=_BAR_HEIGHT - 2,
        rx=3,
        cls="frame alert" if box.alert else "frame",
    )
    return el(
        "div",
        el("span", box.label, cls="sub"),
        el(
            "svg",
            el("title", box.tooltip),
            filled,
            frame,
            width=_BAR_WIDTH,
            height=_BAR_HEIGHT,
            viewBox=f"0 0 {_BAR_WIDTH} {_BAR_HEIGHT}",
            preserveAspectRatio="none",
            role="img",
        ),
        cls="bar",
    )

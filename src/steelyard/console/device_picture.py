"""The last day of one device as areas: who held how much of it, and what the rest of it did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from steelyard.console.usage_window import shift_of
from steelyard.console.visit import Visit
from steelyard.identity.authorise import scope
from steelyard.model.ids import parse
from steelyard.model.organisation import Verb
from steelyard.reports.drawing.markup import Markup
from steelyard.reports.drawing.palette import holder_fills, legend, state_fill
from steelyard.reports.drawing.stacked import Layer, clip, stacked
from steelyard.services.device_past import DevicePast, Segment, device_past

_OTHERS = "f-others"


def device_picture(visit: Visit, device: Mapping[str, Any]) -> tuple[Markup, Markup] | None:
    """Picture and legend; None for a device that is not metered or has only just come."""
    number, registered = parse("device", device["id"]), device["registered_at"]
    seen = scope(visit.principal, Verb.VIEW, "workload")
    past = visit.console.pasts.get(
        (seen.projects, number),
        lambda: device_past(visit.console.store, visit.principal, number, registered),
    )
    if past is None or past.window[0] >= past.window[1]:
        return None
    shown = [layer for layer in _layers(visit, past) if clip(layer.segments, *past.window)]
    drawn = stacked(
        shown,
        past.capacity,
        past.window,
        device["class"],
        visit.speech.say("inventory.past"),
        shift_of(visit.speech.zone, past.window[0]),
    )
    return drawn, legend({layer.fill: layer.label for layer in shown})


def _layers(visit: Visit, past: DevicePast) -> Iterator[Layer]:
    fills = holder_fills(project for project in past.held if project is not None)
    for project, segments in past.held.items():
        label = visit.speech.say("common.another-project") if project is None else project
        yield _layer(visit, label, _OTHERS if project is None else fills[project], segments, past)
    for state, segments in past.unheld.items():
        yield _layer(visit, visit.speech.word("state", state), state_fill(state), segments, past)


def _layer(visit: Visit, label: str, fill: str, segments: Sequence[Segment], past: DevicePast) -> Layer:
    time = sum(t1 - t0 for t0, t1, _ in clip(segments, *past.window))
    return Layer(label, fill, tuple(segments), f"{label}: {visit.speech.span(time)}")

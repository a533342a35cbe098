"""Charts: what is drawn is what was given, to the pixel where a sum is meant."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from steelyard.reports.drawing.devices import DeviceBox, NodeCard, Part, device_map
from steelyard.reports.drawing.gantt import Band, Gantt, Line, Mark, Tile
from steelyard.reports.drawing.palette import HOLDERS, holder_fills, patterns
from steelyard.reports.drawing.stacked import Layer, borders, clip, stacked, steps

segments = st.lists(
    st.tuples(st.integers(0, 50), st.integers(1, 50), st.integers(0, 9)).map(
        lambda s: (s[0], s[0] + s[1], s[2])
    ),
    max_size=12,
)


@given(segments)
def test_steps_sum_to_the_segments_exactly(given_segments: list[tuple[int, int, int]]) -> None:
    marks = borders([given_segments], 0, 120)
    levels = steps(clip(given_segments, 0, 120), marks)
    area = sum(level * (end - start) for level, start, end in zip(levels, marks, marks[1:], strict=False))
    assert area == sum(quantity * (t1 - t0) for t0, t1, quantity in given_segments)


@given(segments, st.integers(0, 40), st.integers(41, 90))
def test_a_window_cuts_segments_at_its_borders(
    given_segments: list[tuple[int, int, int]], t0: int, t1: int
) -> None:
    cut = clip(given_segments, t0, t1)
    assert all(t0 <= start < end <= t1 for start, end, _ in cut)


def test_layers_that_fill_the_capacity_touch_its_line() -> None:
    layers = [Layer("a", "f-h1", ((0, 100, 600),)), Layer("idle", "f-idle-schedulable", ((0, 100, 400),))]
    svg = str(stacked(layers, [(0, 100, 1000)], (0, 100), "gpu", "GPU"))
    figures = dict(re.findall(r'd="(M[^"]*)" class="(?:area )?([^"]*)"', svg)[::-1])
    ends = {
        cls: min(float(y) for y in re.findall(r" (\d+(?:\.\d)?)(?: L| Z|$)", d)) for d, cls in figures.items()
    }
    assert ends["f-idle-schedulable"] == ends["capacity"]


def test_a_gap_in_use_is_drawn_as_two_figures() -> None:
    layer = Layer("a", "f-h1", ((0, 10, 5), (20, 30, 5)))
    svg = str(stacked([layer], [(0, 30, 10)], (0, 30), "gpu", "GPU"))
    assert svg.count("Z") == 2


def test_nothing_at_all_is_still_a_picture() -> None:
    assert ElementTree.fromstring(str(stacked([], [], (0, 0), "gpu", "GPU"))).tag == "svg"


def gantt(name: str = "train") -> str:
    line = Line(name, "note", (Tile(0, 5, "f-s-waiting", "waits", True), Tile(5, 9, "f-s-running", "runs")),
                (Mark(9, "failed", "attempt 1"),), True)  # fmt: skip
    return str(Gantt("t", (0, 10), [("local", [line])], [Band(2, 4, "silent")]).draw())


def test_a_line_shows_waits_thin_and_ends_with_a_sign() -> None:
    svg = gantt()
    heights = re.findall(r'height="(\d+)" class="f-s-(\w+)"', svg)
    assert dict((state, height) for height, state in heights) == {"waiting": "4", "running": "12"}
    assert "✕" in svg
    assert 'class="line sim"' in svg


def test_charts_are_well_formed_whatever_a_workload_is_called() -> None:
    svg = gantt("</svg><script>alert(1)</script>\x00")
    assert [child.tag for child in ElementTree.fromstring(svg).iter("script")] == []


def test_parts_of_a_device_fill_it_in_proportion() -> None:
    box = DeviceBox("l", "t", 1000, (Part(250, "f-h1"), Part(750, "f-idle-schedulable")))
    markup = str(device_map([NodeCard("n", "s", "simulated", (box,))]))
    heights = [float(height) for height in re.findall(r'height="([\d.]+)" class="f-', markup)]
    assert heights == [6.5, 19.5]
    assert "simulated" in markup


def test_every_holder_has_a_colour_and_keeps_it() -> None:
    fills = holder_fills(["b", "a", "c"])
    assert fills == holder_fills(["c", "b", "a"]) == {"a": "f-h1", "b": "f-h2", "c": "f-h3"}
    assert len(set(holder_fills(map(str, range(20))).values())) == HOLDERS


def test_hatchings_that_the_style_names_are_there() -> None:
    names = set(re.findall(r'id="(p-[a-z-]+)"', str(patterns())))
    assert {"p-unavailable", "p-unavailable-planned", "p-reserved", "p-blocked", "p-unknown"} <= names

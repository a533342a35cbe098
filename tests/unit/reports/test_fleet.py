"""Cells of devices: what is held fills them from below; the outline tells what can't be had."""

from __future__ import annotations

import re

import pytest

from steelyard.reports.drawing.devices import Part
from steelyard.reports.drawing.fleet import SIDE, Cell, cell_picture, cells


def cell(look: str = "part", *parts: Part, about: str = "gpu-0") -> Cell:
    return Cell("/devices/dv_1", look, "P", about, 1000, parts)


def test_parts_fill_a_cell_from_below_in_proportion() -> None:
    drawn = cell_picture(cell("part", Part(250, "f-held"), Part(500, "f-reserved")))
    rects = re.findall(r'y="([0-9.]+)" width="24" height="([0-9.]+)" class="(f-[a-z]+)"', drawn)
    assert [(float(height), fill) for _, height, fill in rects] == [(6.0, "f-held"), (12.0, "f-reserved")]
    assert float(rects[0][0]) + 6 == SIDE - 1
    assert float(rects[1][0]) + 12 == float(rects[0][0])


@pytest.mark.parametrize("look", ["unavailable", "quarantined"])
def test_what_can_not_be_had_has_cut_corners(look: str) -> None:
    outlines = {re.findall(r'<path d="([^"]*)"', cell_picture(cell(each)))[0] for each in (look, "free")}
    assert len(outlines) == 2


def test_a_cell_is_a_link_that_says_in_words_what_it_shows() -> None:
    drawn = cells([cell(about="<b>gpu</b>")])
    assert '<a href="/devices/dv_1">' in drawn
    assert "<title>&lt;b&gt;gpu&lt;/b&gt;</title>" in drawn
    assert "style=" not in drawn

"""Markup: nothing that came from outside becomes markup."""

from __future__ import annotations

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.reports.drawing.markup import Markup, el, escape, number, raw


class Reader(HTMLParser):
    """Collects what a browser would take for tags, attributes and text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        self.text += data


def read(markup: str) -> Reader:
    reader = Reader()
    reader.feed(markup)
    reader.close()
    return reader


@given(st.text())
def test_any_text_stays_text_between_tags_and_in_attributes(text: str) -> None:
    reader = read(el("p", text, title=text))
    assert reader.tags == ["p"]
    assert [name for name, _ in reader.attributes] == ["title"]


def test_tags_quotes_and_ampersands_are_shown_as_they_are() -> None:
    reader = read(el("td", "<script>alert('x')</script> & \"y\""))
    assert (reader.tags, reader.text) == (["td"], "<script>alert('x')</script> & \"y\"")


def test_control_characters_and_turned_writing_are_shown_as_a_box() -> None:
    assert escape("a\x1b[31mb\u202ec") == "a\ufffd[31mb\ufffdc"


def test_what_is_markup_already_is_not_escaped_twice() -> None:
    assert el("p", el("b", "x")) == "<p><b>x</b></p>"
    assert isinstance(el("p"), Markup)


def test_attributes_that_are_none_or_false_are_left_out() -> None:
    assert (
        el("input", checked=True, disabled=False, id=None, cls="a", for_="b")
        == '<input checked class="a" for="b">'
    )


def test_a_script_that_could_end_early_is_refused() -> None:
    with pytest.raises(ValueError):
        raw("script", "var a = '</script>'")


@pytest.mark.parametrize(("value", "shown"), [(1.0, "1"), (2.25, "2.2"), (-0.5, "-0.5"), (10, "10")])
def test_coordinates_have_one_decimal_at_most(value: float, shown: str) -> None:
    assert number(float(value)) == shown

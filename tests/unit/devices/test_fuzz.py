"""What goes wrong between a tool and its parser never makes a parser fail and never makes up a figure.

Every sample of every tool is cut, shifted, localised and coloured in each way of `tests/support/mangled.py`.
What may come of it: a reading that says the same as before, an incomplete one without figures, or none.

Two things can't be told from a text alone, and are left out: a bare number that lost its last digits while
its line kept its end, and a line that is lost as a whole where nothing counts the lines. That a tool ended
early is for whoever ran it to say; a text that ends without a line end is cut, whatever it says.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from types import FrameType

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.devices.output import LINE_MAX, output_of
from steelyard.devices.parsers import PARSERS, parse
from steelyard.devices.reading import (
    FIGURES,
    LINE_LIMIT,
    PROBLEMS_MAX,
    READINGS_MAX,
    TEXT_LIMIT,
    Parsed,
    ProblemCode,
    Reading,
    clean,
    incomplete,
    judged,
    kept,
)
from steelyard.model.health import Health, Sign, SignCode, SignSource
from tests.support import mangled
from tests.support.device_samples import Part, all_parts, identity
from tests.support.device_texts import TEXTS
from tests.support.mangled import Mangled

PARTS = [
    *all_parts(),
    *(
        Part("text", number, tool, None, text, {"layout": layout})
        for number, (tool, layout, text) in enumerate(TEXTS, 1)
    ),
]
TOOLS = sorted(PARSERS)
#: Layouts in which each line or key tells one thing of a device by itself: what is lost is then unknown, and
#: the rest stands. Their figures are the same or None; those of all other layouts are all the same.
BY_KEY = {
    ("cnmon", "info-text"),
    ("hy-smi", "lines-dcu"),
    ("npu-smi", "map"),
    ("npu-smi", "cards"),
    ("npu-smi", "board"),
    ("npu-smi", "usages"),
    ("nvidia-smi", "query-csv"),  # a column that its heading does not name
}
#: Logs and listings: a line that is none of a device is no damage.
LISTINGS = {"kernel-log", "device-files", "lspci", "hami"}


def is_json(part: Part) -> bool:
    return part.text.lstrip()[:1] in ("{", "[") or "\n{" in part.text or "=[{" in part.text


def by_key(part: Part) -> bool:
    return is_json(part) or (part.tool, part.expected.get("layout")) in BY_KEY


def figures(reading: Reading) -> tuple[int | None, ...]:
    return tuple(getattr(reading, name) for name in FIGURES)


@cache
def readings_before(text: str, tool: str, series: bool) -> tuple[Reading, ...]:
    """The whole readings of an output; of a series of samples, those of every sample."""
    texts = [text, *(one.text for one in mangled.cut_at_lines(text))] if series else [text]
    return tuple(one for text in texts for one in parse(tool, None, text).readings if one.complete)


def before(part: Part) -> tuple[Reading, ...]:
    return readings_before(part.text, part.tool, bool(part.expected.get("series")))


def says_the_same(reading: Reading, other: Reading, loose: bool) -> bool:
    if not loose:
        return identity(reading) == identity(other) and figures(reading) == figures(other)
    who = zip(identity(reading), identity(other), strict=True)
    shared = [a == b for a, b in who if None not in (a, b)]
    what = zip(figures(reading), figures(other), strict=True)
    return (not shared or any(shared)) and all(a in (None, b) for a, b in what)


def assert_sound(parsed: Parsed, how: object) -> None:
    """What holds of every answer, whatever the text was."""
    for reading in parsed.readings:
        assert reading.line, how
        assert reading.family, how
        if not reading.complete:
            assert set(figures(reading)) == {None}, how
            assert reading.health is Health.UNKNOWN, how
            assert [sign.code for sign in reading.signs] == [SignCode.ROW_INCOMPLETE], how
        for name in FIGURES:
            figure = getattr(reading, name)
            assert figure is None or (type(figure) is int and (figure >= 0 or name == "temperature")), how
    assert len(parsed.problems) <= PROBLEMS_MAX, how
    assert len(parsed.readings) <= READINGS_MAX, how


def assert_nothing_made_up(part: Part, texts: Iterable[Mangled], held: bool = False) -> None:
    """Every whole reading says what one said before; `held`: its processes are all of them, or not told."""
    for one in texts:
        parsed = parse(part.tool, part.layout, one.text)
        assert_sound(parsed, one)
        for reading in parsed.readings:
            same = not reading.complete or any(
                says_the_same(reading, other, by_key(part))
                and (not held or reading.holders in (None, other.holders))
                for other in before(part)
            )
            assert same, f"{one}: {reading}"


def assert_nothing_lost_unsaid(part: Part, texts: Iterable[Mangled]) -> None:
    """A device that was read before and is not now: something says so."""
    if part.tool in LISTINGS or is_json(part):
        return
    for one in texts:
        parsed = parse(part.tool, part.layout, one.text)
        told = bool(parsed.problems) or not all(reading.complete for reading in parsed.readings)
        told = told or (parsed.attached or 0) > len(parsed.readings)
        here = [
            any(says_the_same(reading, other, by_key(part)) for reading in parsed.readings)
            for other in before(part)
            if not part.expected.get("series")
        ]
        assert told or all(here), str(one)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_text_that_ends_early_gives_no_figure_that_the_whole_one_does_not_give(part: Part) -> None:
    assert_nothing_made_up(part, mangled.cut_at_lines(part.text), held=True)
    assert_nothing_made_up(part, mangled.cut_at_characters(part.text, 25), held=True)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_line_that_lost_its_end_gives_no_figure_and_is_told_of(part: Part) -> None:
    texts = list(mangled.cut_within_lines(part.text, 30))
    if part.expected.get("series"):  # its heading cut as well as a row is two faults at once
        texts = [one for one in texts if not one.how.startswith("line 1 ")]
    assert_nothing_made_up(part, texts, held=True)
    assert_nothing_lost_unsaid(part, texts)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_a_lost_line_gives_no_figure_from_what_is_left_of_its_device(part: Part) -> None:
    assert_nothing_made_up(part, mangled.without_lines(part.text))


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_shifted_columns_give_no_figure_and_are_told_of(part: Part) -> None:
    texts = list(mangled.shifted(part.text))
    if is_json(part):  # what is still JSON without one of its members is the output of another release
        for one in texts:
            assert_sound(parse(part.tool, part.layout, one.text), one)
        return
    assert_nothing_made_up(part, texts)
    assert_nothing_lost_unsaid(part, texts)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_localised_words_and_digits_give_no_figure_and_are_told_of(part: Part) -> None:
    texts = list(mangled.localised(part.text))
    assert_nothing_made_up(part, texts)
    assert_nothing_lost_unsaid(part, texts)


@pytest.mark.parametrize("part", PARTS, ids=str)
def test_colours_line_ends_and_zero_bytes_change_nothing(part: Part) -> None:
    plain = parse(part.tool, part.layout, part.text)
    for one in mangled.dressed(part.text):
        assert parse(part.tool, part.layout, one.text) == plain, str(one)


# -- texts that are none of the tool's -------------------------------------------------------------------


@pytest.mark.parametrize("tool", TOOLS)
def test_what_another_tool_printed_is_no_device_of_this_one(tool: str) -> None:
    for part in PARTS:
        if part.tool == tool:
            continue
        parsed = parse(tool, None, part.text)
        assert_sound(parsed, part)
        own = {reading.family for reading in before(part)}  # rocm-smi and hy-smi print alike
        assert {reading.family for reading in parsed.readings if reading.complete} <= own, str(part)


#: Lines of all samples, and what stands between and in them.
_LINES = sorted({line for part in PARTS for line in part.text.splitlines()})
_BITS = ["|", ",", ":", " ", "\n", "\r", "\t", "\x00", "\x1b[", "\x1b[31m", "{", "[", '"', "N/A", "MiB", "0"]
_BITS += ["ERR!", "9" * 30, "[" * 5_000, "-1", "0x", "\u2028", "\ufeff"]
_SOUPS = st.lists(st.sampled_from(_LINES) | st.sampled_from(_BITS) | st.text(max_size=12), max_size=14).map(
    "\n".join
)


@given(tool=st.sampled_from(TOOLS), text=st.text(max_size=400) | _SOUPS)
@settings(max_examples=400, deadline=None)
def test_no_text_makes_a_parser_fail(tool: str, text: str) -> None:
    assert_sound(parse(tool, None, text), text)


@given(data=st.data(), part=st.sampled_from(PARTS))
@settings(max_examples=300, deadline=None)
def test_a_sample_with_anything_put_into_it_makes_no_parser_fail(data: st.DataObject, part: Part) -> None:
    text = part.text
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text)))
        until = data.draw(st.integers(at, min(len(text), at + 40)))
        text = text[:at] + data.draw(st.sampled_from(_BITS) | st.text(max_size=6)) + text[until:]
    assert_sound(parse(part.tool, part.layout, text), text)


# -- size and time ---------------------------------------------------------------------------------------


def steps(run: Callable[[], object]) -> int:
    """How many functions, Python's own among them, are called in a run: a measure that no load changes."""
    count = 0

    def seen(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def one_of_each_layout() -> list[Part]:
    return list({(part.tool, part.expected.get("layout")): part for part in PARTS}.values())


@pytest.mark.parametrize("part", one_of_each_layout(), ids=str)
def test_four_times_the_text_takes_about_four_times_the_steps(part: Part) -> None:
    text = part.text * (1 + 6_000 // len(part.text))
    few = steps(lambda: parse(part.tool, part.layout, text))
    many = steps(lambda: parse(part.tool, part.layout, text * 4))
    assert many <= 5 * few


_REPEATED = (" ", "\t", "0", "0 ", "a ", "a", "| ", "|0", ",", ", ", ":", " : ", "/", "0/", "0.", "-", "[ 1]")


def hostile_lines() -> Iterator[str]:
    """Lines as long as one may be, of what the forms of cells, keys and numbers are made of."""
    for bit in _REPEATED:
        yield bit * (LINE_MAX // len(bit))
        yield "| 0 " + bit * ((LINE_MAX - 10) // len(bit)) + " |"
        yield "NEURON_HW_ERR=" + bit * ((LINE_MAX - 20) // len(bit))
        yield "GPU 0: " + bit * ((LINE_MAX - 10) // len(bit))


@pytest.mark.parametrize("tool", TOOLS)
def test_no_line_is_long_enough_to_keep_a_parser_busy(tool: str) -> None:
    """Steps within a pattern are not counted: of the square of a line's length they would take minutes."""
    text = "\n".join(hostile_lines()) + "\n"
    began = time.process_time()
    headings = [part.text for part in PARTS if part.tool == tool][:3]
    for heading in ["", *headings]:
        assert_sound(parse(tool, None, heading + text), tool)
    assert time.process_time() - began < 20


def repeated(part: Part) -> str:
    """Ten megabytes of a sample."""
    return part.text * (1 + 10 * 1024 * 1024 // len(part.text))


def assert_bounded(part: Part, text: str) -> None:
    parsed = parse(part.tool, part.layout, text)
    assert_sound(parsed, part)
    assert parsed.problems[0].code is ProblemCode.TOO_LONG
    for reading in parsed.readings:
        assert len(reading.line) <= LINE_LIMIT
        assert not reading.complete or any(says_the_same(reading, one, by_key(part)) for one in before(part))


@pytest.mark.parametrize("layout", ["mthreads-gmi table", "neuron-ls json", "npu-smi info"])
def test_ten_megabytes_are_read_up_to_a_bound_and_said_to_be_too_long(layout: str) -> None:
    part = next(one for one in PARTS if f"{one.tool} {one.expected.get('layout')}" == layout)
    assert_bounded(part, repeated(part))


def test_one_line_of_ten_megabytes_is_too_long_and_hides_no_other() -> None:
    part = next(one for one in PARTS if one.sample == "ixsmi_query_ok.csv")
    parsed = parse(part.tool, part.layout, part.text + "7" * (10 * 1024 * 1024) + "\n")
    assert [one.index for one in parsed.readings if one.complete] == [0, 1]
    assert {problem.code for problem in parsed.problems} == {ProblemCode.TOO_LONG}


def test_what_is_beyond_the_bound_of_a_text_ends_in_a_line_without_an_end() -> None:
    assert not output_of("a" * (TEXT_LIMIT + 1) + "\n").lines
    last = output_of(("0" * 9_999 + "\n") * (TEXT_LIMIT // 10_000 + 1)).lines[-1]
    assert not last.whole
    assert [line.whole for line in output_of("a\nb").lines] == [True, False]
    assert [line.whole for line in output_of("a\nb\n").lines] == [True, True]


# -- what all parsers stand on ---------------------------------------------------------------------------


@given(st.text(max_size=200))
@settings(max_examples=200, deadline=None)
def test_cleaning_leaves_no_control_character_and_nothing_for_a_second_time(text: str) -> None:
    once = clean(text)
    assert clean(once) == once or "\ufeff" in text
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", once)


@given(st.text(max_size=LINE_LIMIT * 3))
@settings(max_examples=100, deadline=None)
def test_a_kept_line_is_one_bounded_line(text: str) -> None:
    line = kept(text)
    assert len(line) <= LINE_LIMIT
    assert "\n" not in line


@given(st.fixed_dictionaries({name: st.none() | st.integers(0, 10**9) for name in FIGURES}))
@settings(max_examples=50, deadline=None)
def test_an_incomplete_reading_keeps_who_it_is_and_no_figure(values: dict[str, int | None]) -> None:
    whole = Reading("nvidia", "t", "l", True, "row", index=3, uuid="GPU-1", mig=True)
    cut = incomplete(replace(whole, **values), "row")  # type: ignore[arg-type]
    assert (cut.index, cut.uuid, cut.line) == (3, "GPU-1", "row")
    assert set(figures(cut)) == {None}
    assert (cut.complete, cut.mig, cut.health) == (False, None, Health.UNKNOWN)


@given(st.permutations(list(Health)))
@settings(max_examples=30, deadline=None)
def test_a_reading_is_as_well_as_its_worst_sign_says_and_the_worst_stands_first(order: list[Health]) -> None:
    signs = [Sign(SignCode.VENDOR_ALARM, health, SignSource.TOOL) for health in order]
    reading = judged(Reading("nvidia", "t", "l", True, "row"), signs)
    assert reading.health is reading.signs[0].health is Health.MISSING
    assert judged(reading, ()).health is Health.HEALTHY


# -- the long form ---------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("part", PARTS, ids=str)
def test_every_cut_of_every_sample(part: Part) -> None:
    assert_nothing_made_up(part, mangled.cut_at_characters(part.text), held=True)
    texts = [one for one in mangled.cut_within_lines(part.text) if not one.how.startswith("line 1 ")]
    assert_nothing_made_up(part, texts)
    assert_nothing_lost_unsaid(part, texts)


@pytest.mark.soak
@pytest.mark.parametrize("part", one_of_each_layout(), ids=str)
def test_ten_megabytes_in_every_layout(part: Part) -> None:
    assert_bounded(part, repeated(part))


@pytest.mark.soak
@given(tool=st.sampled_from(TOOLS), text=st.text(max_size=4_000) | _SOUPS)
@settings(max_examples=20_000, deadline=None)
def test_no_text_of_many_makes_a_parser_fail(tool: str, text: str) -> None:
    assert_sound(parse(tool, None, text), text)

"""Frames of an execution's stream, and the requests that begin one: whatever comes, it is no more."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.engines.local import beside, console, frames

PIECES = st.lists(st.tuples(st.integers(0, 4), st.binary(max_size=300)), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=8,
)


@given(PIECES, st.data())
def test_frames_arrive_as_they_were_sent_however_they_are_cut(
    pieces: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    text = b"".join(frames.frame(channel, part) for channel, part in pieces)
    reader, found, at = frames.Unframer(), [], 0
    while at < len(text):
        step = data.draw(st.integers(1, 100))
        reader.feed(text[at : at + step])
        at += step
        while (one := reader.next()) is not None:
            found.append(one)
    assert found == pieces


@given(st.binary(max_size=100))
def test_garbage_is_a_frame_an_error_or_waits_for_more(text: bytes) -> None:
    reader = frames.Unframer(text)
    try:
        while (one := reader.next()) is not None:
            assert one[0] <= frames.RESIZE
            assert len(one[1]) <= frames.MAX_PAYLOAD
    except ValueError:
        pass


@given(st.dictionaries(st.sampled_from(["command", "terminal", "term", "limit", "x"]), JSON))
def test_a_request_is_a_command_or_nothing(request: dict[str, object]) -> None:
    wish = beside.read_wish(request)
    if wish is not None:
        assert wish.command
        assert all(isinstance(word, str) and "\0" not in word for word in wish.command)
        assert wish.terminal is None or all(0 < side < 10_000 for side in wish.terminal)


@given(JSON)
def test_a_window_has_a_size_or_nothing_is_changed(said: object) -> None:
    size = console.read_size(json.dumps(said).encode())
    assert size is None or (len(size) == 2 and all(0 < side < 10_000 for side in size))


@pytest.mark.parametrize("command", [[], [""], ["a\0b"], "true", [1], ["x"] * 300])
def test_what_is_no_command_is_refused(command: object) -> None:
    assert beside.read_wish({"command": command}) is None

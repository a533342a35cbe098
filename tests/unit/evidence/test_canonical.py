"""Canonical bytes: rfc8785 is the oracle; everything without one canonical form is refused."""

from __future__ import annotations

import unicodedata

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from steelyard.evidence.canonical import MAX_INT, decode_strict, encode, encode_trusted
from steelyard.model.errors import SteelyardError

texts = st.text(st.characters(exclude_categories=["Cs"]))
keys = st.text(st.characters(max_codepoint=0x7F))
numbers = st.integers(-MAX_INT, MAX_INT)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=5),
    max_leaves=12,
)
SPECIAL = [*map(chr, range(0x21)), *'"/\\', *"\x7f\x80\u2028\u2029\ufeff\uffff😀"]


def code_of(call: object, *args: object) -> str:
    with pytest.raises(SteelyardError) as caught:
        call(*args)  # type: ignore[operator]
    return caught.value.code


@pytest.mark.parametrize("char", SPECIAL)
def test_special_characters_are_written_as_the_oracle_writes_them(char: str) -> None:
    value = [char, f"a{char}b"]
    assert encode_trusted(value) == rfc8785.dumps(value)


@given(values)
def test_bytes_equal_those_of_rfc8785(value: object) -> None:
    assert encode_trusted(value) == rfc8785.dumps(value)  # type: ignore[arg-type]


@given(values)
def test_what_was_encoded_decodes_to_itself(value: object) -> None:
    normal = _normal(value)
    assert decode_strict(encode(normal)) == normal


def _normal(value: object) -> object:
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return {key: _normal(item) for key, item in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1.0, "canonical-float"),
        ({"a": [float("nan")]}, "canonical-float"),
        (2**53, "canonical-integer-range"),
        (-(2**53), "canonical-integer-range"),
        ({"ключ": 1}, "canonical-key"),
        ({1: 2}, "canonical-key"),
        ("e\u0301", "canonical-not-nfc"),
        ({"a": "\u212b"}, "canonical-not-nfc"),
        ("\ud800", "canonical-surrogate"),
        (b"bytes", "canonical-type"),
        ({1, 2}, "canonical-type"),
    ],
)
def test_values_without_a_canonical_form_are_refused(value: object, code: str) -> None:
    assert code_of(encode, value) == code


def test_nesting_has_a_bound() -> None:
    value: object = 1
    for _ in range(65):
        value = [value]
    assert code_of(encode, value) == "canonical-depth"
    assert code_of(decode_strict, b"[" * 100_000) == "canonical-depth"


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b'{"a":1,"a":2}', "canonical-duplicate-key"),
        (b'{"a": 1}', "canonical-bytes"),
        (b'{"b":1,"a":2}', "canonical-bytes"),
        (b'{"a":1}\n', "canonical-bytes"),
        (b'"\\u0041"', "canonical-bytes"),
        (b'"\\/"', "canonical-bytes"),
        (b'"\\ud800"', "canonical-surrogate"),
        (b"1.0", "canonical-float"),
        (b"1e3", "canonical-float"),
        (b"NaN", "canonical-float"),
        (b"-0", "canonical-bytes"),
        (b"9007199254740992", "canonical-integer-range"),
        (b'"e\xcc\x81"', "canonical-not-nfc"),
        (b"\xff", "canonical-syntax"),
        (b"", "canonical-syntax"),
        (b"{", "canonical-syntax"),
        (b"\xef\xbb\xbf1", "canonical-syntax"),
    ],
)
def test_bytes_that_are_not_canonical_are_refused(data: bytes, code: str) -> None:
    assert code_of(decode_strict, data) == code

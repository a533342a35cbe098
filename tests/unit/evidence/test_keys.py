"""Keys: storage text, weak keys, and the statement that one key follows another."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from steelyard.evidence.keys import (
    Ed25519Signer,
    check_public_key,
    fingerprint,
    rotation_statement,
    verify_rotation,
    verify_signature,
)
from steelyard.model.errors import SteelyardError
from tests.unit.evidence.curve import small_order_points

OLD, NEW = Ed25519Signer("log.example", bytes(range(32))), Ed25519Signer("log.example", bytes(32))


def test_a_private_key_survives_its_storage_text() -> None:
    signer = Ed25519Signer.generate("log.example")
    again = Ed25519Signer.from_text("log.example", signer.private_text() + "\n")
    assert again.public_key == signer.public_key
    assert verify_signature(signer.public_key, b"m", again.sign(b"m"))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u3000b", "a\nb", "a\x00"])
def test_names_that_a_note_cannot_carry_are_refused(name: str) -> None:
    with pytest.raises(SteelyardError, match="key-name"):
        Ed25519Signer(name, bytes(32))


def test_damaged_storage_text_is_refused() -> None:
    text = OLD.private_text()
    for bad in (text[:-1], text[:-4], "!" + text[1:], ""):
        with pytest.raises(SteelyardError, match="key-"):
            Ed25519Signer.from_text("log.example", bad)


def test_the_fingerprint_is_the_sha256_of_the_raw_key() -> None:
    # RFC 8032 7.1 test 1: public key d75a98…; digest by sha256sum.
    raw = bytes.fromhex("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")
    assert fingerprint(raw) == "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"


def test_keys_with_which_anybody_can_sign_are_refused() -> None:
    points = small_order_points()
    assert len(points) == 8
    for raw in points:
        with pytest.raises(SteelyardError, match="key-weak"):
            check_public_key(raw)
        assert not verify_signature(raw, b"m", raw + bytes(32))


def test_a_rotation_is_signed_with_both_keys() -> None:
    assert verify_rotation(rotation_statement(OLD, NEW, 41))


def test_a_rotation_to_the_same_key_is_none() -> None:
    assert not verify_rotation(rotation_statement(OLD, OLD, 41))


def _changes(statement: dict[str, Any]) -> list[dict[str, Any]]:
    other = rotation_statement(NEW, Ed25519Signer("x", b"\x01" * 32), 41)
    changed = [copy.deepcopy(statement) for _ in range(8)]
    changed[0]["seq"] = 40
    changed[1]["new"] = other["new"]
    changed[2]["signatures"]["new"] = other["signatures"]["new"]
    changed[3]["signatures"]["old"] = changed[3]["signatures"]["new"]
    del changed[4]["signatures"]["old"]
    changed[5]["more"] = 1
    changed[6]["old"]["fingerprint"] = changed[6]["new"]["fingerprint"]
    changed[7]["old"] = None
    return changed


@pytest.mark.parametrize("nth", range(8))
def test_a_changed_rotation_does_not_hold(nth: int) -> None:
    assert not verify_rotation(_changes(rotation_statement(OLD, NEW, 41))[nth])

"""Concealed values: provable one by one, silent otherwise."""

from __future__ import annotations

import hashlib

import pytest

from steelyard.evidence.confidential import conceal, reveals

SALT = bytes(range(16))


def test_a_concealed_value_is_the_salted_hash() -> None:
    assert conceal("10.0.0.7", SALT) == {"h": hashlib.sha256(SALT + b"10.0.0.7").hexdigest()}


def test_only_the_right_value_and_salt_reveal_it() -> None:
    concealed = conceal("张三", SALT)
    assert reveals(concealed, "张三", SALT)
    assert not reveals(concealed, "李四", SALT)
    assert not reveals(concealed, "张三", bytes(16))
    assert not reveals(concealed, "三", SALT + "张".encode())


def test_a_salt_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError):
        conceal("x", b"short")

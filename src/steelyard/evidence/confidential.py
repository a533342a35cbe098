"""Confidential values in leaves: only H(salt ‖ value) is written, so that the value can be erased later.

Salt and value lie in a side table of the store. Disclosing both proves one value without the others;
erasing both leaves the tree whole. Concealed since schema 1: origin.ip, origin.client, free-text reasons,
names and e-mail addresses of people.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from hmac import compare_digest

from steelyard.evidence.canonical import check_text

SALT_BYTES = 16
"""Fixed, so that salt ‖ value can be split in one way only. Fresh random bytes for each value."""


def conceal(value: str, salt: bytes) -> dict[str, str]:
    """What the leaf holds instead of `value`: {"h": hex of SHA-256(salt ‖ UTF-8 of value)}."""
    if len(salt) != SALT_BYTES:
        raise ValueError(f"a salt has {SALT_BYTES} bytes")
    check_text(value)
    return {"h": sha256(salt + value.encode()).hexdigest()}


def reveals(concealed: Mapping[str, str], value: str, salt: bytes) -> bool:
    """Whether salt and value are those that were concealed."""
    return len(salt) == SALT_BYTES and compare_digest(concealed["h"], conceal(value, salt)["h"])

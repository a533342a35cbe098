"""The verifier's own Ed25519: the vectors of RFC 8032, and agreement with `cryptography`."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.evidence.verify import BASE, L, P, ed25519_verify, point_add, point_decode, point_encode
from tests.unit.evidence.curve import multiply, small_order_points

# RFC 8032 7.1: secret key, public key, message, signature of tests 1, 2, 3 and SHA(abc).
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
    (
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42",
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        hashlib.sha512(b"abc").hexdigest(),
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    ),
]
NEUTRAL_RAW = (1).to_bytes(32, "little")


def library_verifies(public: bytes, message: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_the_vectors_of_rfc_8032_verify(secret: str, public: str, message: str, signature: str) -> None:
    parts = bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature)
    assert ed25519_verify(*parts)
    key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex(secret))
    assert key.sign(parts[1]) == parts[2]


def test_every_flipped_bit_of_a_vector_fails() -> None:
    public, message, signature = (bytes.fromhex(part) for part in VECTORS[2][1:])
    assert not any(ed25519_verify(public, message, flip(signature, bit)) for bit in range(512))
    assert not any(ed25519_verify(flip(public, bit), message, signature) for bit in range(256))
    assert not any(ed25519_verify(public, flip(message, bit), signature) for bit in range(16))


def test_a_signature_whose_s_is_not_reduced_fails() -> None:
    public, message, signature = (bytes.fromhex(part) for part in VECTORS[1][1:])
    s = int.from_bytes(signature[32:], "little")
    for wrong in (s + L, s + 2 * L):
        changed = signature[:32] + wrong.to_bytes(32, "little")
        assert not ed25519_verify(public, message, changed)
        assert not library_verifies(public, message, changed)


def test_lengths_other_than_32_and_64_fail() -> None:
    public, message, signature = (bytes.fromhex(part) for part in VECTORS[1][1:])
    assert not ed25519_verify(public[:-1], message, signature)
    assert not ed25519_verify(public + b"\0", message, signature)
    assert not ed25519_verify(public, message, signature[:-1])
    assert not ed25519_verify(public, message, signature + b"\0")


def test_keys_of_small_order_fail_although_the_equation_holds() -> None:
    # With the neutral point as key, R = S·B is a signature of every message.
    signature = point_encode(multiply(7, BASE)) + (7).to_bytes(32, "little")
    assert library_verifies(NEUTRAL_RAW, b"anything", signature)
    assert not any(ed25519_verify(key, b"anything", signature) for key in small_order_points())


def test_encodings_that_are_not_reduced_are_no_points() -> None:
    for y in (P, P + 1, 2**255 - 1):
        assert point_decode(y.to_bytes(32, "little")) is None
    assert point_decode((1 | 1 << 255).to_bytes(32, "little")) is None


def test_the_check_is_without_cofactor_as_in_the_library() -> None:
    # A key with a component of order 8: the equation holds only where the hash is a multiple of 8.
    points = [point for raw in small_order_points() if (point := point_decode(raw))]
    torsion = next(point for point in points if point_encode(multiply(4, point)) != NEUTRAL_RAW)
    public = point_encode(point_add(multiply(11, BASE), torsion))
    verdicts = []
    for r in range(1, 65):
        commitment = point_encode(multiply(r, BASE))
        h = int.from_bytes(hashlib.sha512(commitment + public + b"m").digest(), "little") % L
        signature = commitment + ((r + h * 11) % L).to_bytes(32, "little")
        verdicts.append(ed25519_verify(public, b"m", signature))
        assert verdicts[-1] == library_verifies(public, b"m", signature)
    assert 0 < sum(verdicts) < 32


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40), st.integers(0, 511), st.integers(0, 255))
def test_both_say_the_same_of_sound_and_of_changed_signatures(
    secret: bytes, message: bytes, bit: int, key_bit: int
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(secret)
    public, signature = key.public_key().public_bytes_raw(), key.sign(message)
    assert ed25519_verify(public, message, signature)
    for case in (
        (public, message, flip(signature, bit)),
        (flip(public, key_bit), message, signature),
        (public, message + b"\0", signature),
    ):
        assert ed25519_verify(*case) == library_verifies(*case)

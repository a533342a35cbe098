"""Signing keys: Ed25519 (RFC 8032), their fingerprints, and the statement that one key follows another.

Nothing here reads or writes files: where a private key lies, and who may read it, is the caller's matter.
A private key is 32 raw bytes, kept as their base64 text.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from steelyard.evidence.canonical import encode
from steelyard.model.errors import InvalidError

KEY_BYTES = 32
SIGNATURE_BYTES = 64
_ROTATION_DOMAIN = b"steelyard.dev/key-rotation/v1\n"
_P = 2**255 - 19
_ORDER_8_Y = 0x05FC536D880238B13933C6D305ACDFD5F098EFF289F4C345B027B2C28F95E826
_SMALL_ORDER_Y = {0, 1, _P - 1, _ORDER_8_Y, _P - _ORDER_8_Y}
"""y of the points whose order divides 8: with such a key anybody can make signatures."""


class Signer(Protocol):
    """Who can sign: a file's key here, a token or a key service elsewhere."""

    @property
    def name(self) -> str:
        """Key name of C2SP signed notes: a URL without scheme, no space, no plus."""

    @property
    def public_key(self) -> bytes:
        """The 32 raw bytes of the public key."""

    def sign(self, message: bytes) -> bytes:
        """The 64 bytes of the Ed25519 signature."""


class Ed25519Signer:
    """A signer with its private key in memory."""

    def __init__(self, name: str, private_bytes: bytes) -> None:
        """InvalidError `key-name` or `key-length` for what can't be a key."""
        check_key_name(name)
        if len(private_bytes) != KEY_BYTES:
            raise InvalidError("key-length", length=len(private_bytes), expected=KEY_BYTES)
        self._name = name
        self._key = Ed25519PrivateKey.from_private_bytes(private_bytes)
        self._public = self._key.public_key().public_bytes_raw()

    @classmethod
    def generate(cls, name: str) -> Ed25519Signer:
        """A signer with a fresh key out of the system's random source."""
        return cls(name, Ed25519PrivateKey.generate().private_bytes_raw())

    @classmethod
    def from_text(cls, name: str, text: str) -> Ed25519Signer:
        """The signer whose key `private_text` wrote; InvalidError `key-base64` for other text."""
        return cls(name, decode_base64(text.strip(), "key-base64"))

    def private_text(self) -> str:
        """The private key as base64 of its raw bytes, for a file of mode 0600."""
        return base64.b64encode(self._key.private_bytes_raw()).decode()

    @property
    def name(self) -> str:
        """See `Signer`."""
        return self._name

    @property
    def public_key(self) -> bytes:
        """See `Signer`."""
        return self._public

    def sign(self, message: bytes) -> bytes:
        """See `Signer`."""
        return self._key.sign(message)


def decode_base64(text: str, code: str) -> bytes:
    """Bytes of standard base64 with padding, written in its one canonical way; else InvalidError(code)."""
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidError(code) from error
    if base64.b64encode(data).decode() != text:
        raise InvalidError(code)
    return data


def check_key_name(name: str) -> None:
    """Refuse names that a signed note can't carry (empty, white space, plus, control characters)."""
    if not name or "+" in name or not name.isprintable() or any(char.isspace() for char in name):
        raise InvalidError("key-name", name=name[:80])


def check_public_key(raw: bytes) -> None:
    """Refuse what is no honest Ed25519 public key: wrong length, not reduced, of small order."""
    if len(raw) != KEY_BYTES:
        raise InvalidError("key-length", length=len(raw), expected=KEY_BYTES)
    y = int.from_bytes(raw, "little") & (2**255 - 1)
    if y >= _P or y in _SMALL_ORDER_Y:
        raise InvalidError("key-weak")


def fingerprint(public_key: bytes) -> str:
    """How people compare keys: hex SHA-256 of the raw public key."""
    return sha256(public_key).hexdigest()


def verify_signature(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the signature is by this key over this message; False for weak keys, too."""
    try:
        check_public_key(public_key)
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except (InvalidError, InvalidSignature, ValueError):
        return False
    return True


def key_record(name: str, public_key: bytes) -> dict[str, Any]:
    """A public key as it stands in statements and manifests."""
    return {
        "name": name,
        "public_key": base64.b64encode(public_key).decode(),
        "fingerprint": fingerprint(public_key),
    }


def rotation_statement(old: Signer, new: Signer, seq: int) -> dict[str, Any]:
    """Statement, signed with both keys, that `new` signs for the log after `old`.

    `seq` is the size of the log when the statement was made. It takes effect with its leaf: checkpoints
    that cover the leaf are signed with the new key.
    """
    body: dict[str, Any] = {
        "v": 1,
        "kind": "key-rotation",
        "seq": seq,
        "old": key_record(old.name, old.public_key),
        "new": key_record(new.name, new.public_key),
    }
    message = _ROTATION_DOMAIN + encode(body)
    signatures = {
        "old": base64.b64encode(old.sign(message)).decode(),
        "new": base64.b64encode(new.sign(message)).decode(),
    }
    return {**body, "signatures": signatures}


def verify_rotation(statement: Mapping[str, Any]) -> bool:
    """Whether a rotation statement is whole and signed with both keys it names."""
    try:
        body = {key: value for key, value in statement.items() if key != "signatures"}
        if body.keys() != {"v", "kind", "seq", "old", "new"}:
            return False
        if (body["v"], body["kind"]) != (1, "key-rotation") or body["old"] == body["new"]:
            return False
        message = _ROTATION_DOMAIN + encode(body)
        return all(_side_holds(body[side], statement["signatures"][side], message) for side in ("old", "new"))
    except (InvalidError, KeyError, TypeError):
        return False


def _side_holds(record: dict[str, Any], signature: str, message: bytes) -> bool:
    key = decode_base64(record["public_key"], "key-base64")
    if record != key_record(record["name"], key):
        return False
    return verify_signature(key, message, decode_base64(signature, "key-base64"))

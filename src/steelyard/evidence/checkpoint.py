"""Checkpoints of the log as C2SP signed notes, with cosignatures of witnesses.

Formats: c2sp.org/signed-note (Ed25519, type 0x01), c2sp.org/tlog-checkpoint (three lines, no extension
lines), c2sp.org/tlog-cosignature (cosignature/v1, type 0x04), c2sp.org/tlog-policy.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple

from steelyard.evidence.keys import (
    KEY_BYTES,
    SIGNATURE_BYTES,
    Signer,
    check_key_name,
    check_public_key,
    decode_base64,
    fingerprint,
    verify_signature,
)
from steelyard.evidence.merkle import HASH_BYTES
from steelyard.model.errors import InvalidError

ED25519 = 0x01
COSIGNATURE_V1 = 0x04
MAX_SIGNATURES = 64
_KEY_ID_BYTES = 4
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")


class Checkpoint(NamedTuple):
    """A tree head: the log's origin, the number of leaves and the root over them."""

    origin: str
    size: int
    root: bytes

    def body(self) -> str:
        """The signed text: origin, size, base64 of the root, each with its newline."""
        return f"{self.origin}\n{self.size}\n{base64.b64encode(self.root).decode()}\n"


class VerifierKey(NamedTuple):
    """A public key as notes name it. `kind`: ED25519 for a log, COSIGNATURE_V1 for a witness."""

    name: str
    public_key: bytes
    kind: int = ED25519

    @property
    def key_id(self) -> bytes:
        """SHA-256(name ‖ 0x0A ‖ kind ‖ public key)[:4]."""
        named = self.name.encode() + bytes((0x0A, self.kind)) + self.public_key
        return sha256(named).digest()[:_KEY_ID_BYTES]

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of the raw public key: the same for all names and kinds."""
        return fingerprint(self.public_key)

    def vkey(self) -> str:
        """The key as one line of text: name+key id in hex+base64(kind ‖ public key)."""
        material = base64.b64encode(bytes((self.kind,)) + self.public_key).decode()
        return f"{self.name}+{self.key_id.hex()}+{material}"


class NoteSignature(NamedTuple):
    """One signature line: key name, key id, and what follows the id."""

    name: str
    key_id: bytes
    blob: bytes


class Note(NamedTuple):
    """A note taken apart; nothing is verified yet."""

    body: str
    signatures: tuple[NoteSignature, ...]


class VerifiedNote(NamedTuple):
    """A checkpoint, the keys whose signatures hold, and when each witness signed (POSIX seconds, by name)."""

    checkpoint: Checkpoint
    keys: tuple[VerifierKey, ...]
    cosigned_at: dict[str, int]


def parse_vkey(text: str) -> VerifierKey:
    """The key of a vkey line; InvalidError `vkey` if it is malformed or its key id does not fit."""
    parts = text.split("+", 2)
    if len(parts) != 3:
        raise InvalidError("vkey")
    check_key_name(parts[0])
    material = decode_base64(parts[2], "vkey")
    if len(material) != KEY_BYTES + 1 or material[0] not in (ED25519, COSIGNATURE_V1):
        raise InvalidError("vkey")
    key = VerifierKey(parts[0], material[1:], material[0])
    check_public_key(key.public_key)
    if key.vkey() != text:
        raise InvalidError("vkey")
    return key


def parse_checkpoint(body: str) -> Checkpoint:
    """The tree head in a note's text; InvalidError `checkpoint` unless it is exactly three sound lines."""
    lines = body.split("\n")
    if len(lines) != 4 or lines[3] or not lines[0] or not _SIZE.fullmatch(lines[1]):
        raise InvalidError("checkpoint")
    root = decode_base64(lines[2], "checkpoint")
    if len(root) != HASH_BYTES:
        raise InvalidError("checkpoint")
    return Checkpoint(lines[0], int(lines[1]), root)


def signature_line(name: str, key_id: bytes, blob: bytes) -> str:
    """A line of a note: em dash, key name, base64(key id ‖ signature)."""
    return f"\u2014 {name} {base64.b64encode(key_id + blob).decode()}\n"


def sign_note(body: str, *signers: Signer) -> str:
    """The note of a text that ends in a newline, signed by each signer (type 0x01)."""
    if not body.endswith("\n") or not signers:
        raise InvalidError("note")
    lines = []
    for signer in signers:
        key = VerifierKey(signer.name, signer.public_key)
        lines.append(signature_line(signer.name, key.key_id, signer.sign(body.encode())))
    note = f"{body}\n{''.join(lines)}"
    parse_note(note)
    return note


def cosign(note: str, signer: Signer, time_s: int) -> str:
    """The note with a witness's cosignature/v1 added. `time_s`: POSIX seconds.

    The witness has to have checked consistency with what it signed before; that is not done here.
    """
    key = VerifierKey(signer.name, signer.public_key, COSIGNATURE_V1)
    signature = signer.sign(_cosigned(parse_note(note).body, time_s))
    return note + signature_line(signer.name, key.key_id, time_s.to_bytes(8) + signature)


def _cosigned(body: str, time_s: int) -> bytes:
    return f"cosignature/v1\ntime {time_s}\n{body}".encode()


def parse_note(text: str) -> Note:
    """A note's text and signature lines; InvalidError `note` for anything malformed."""
    body, found, tail = text.rpartition("\n\n")
    if not found or not tail.endswith("\n") or any(char < " " and char != "\n" for char in text):
        raise InvalidError("note")
    lines = tail[:-1].split("\n")
    if len(lines) > MAX_SIGNATURES:
        raise InvalidError("note-signatures", count=len(lines), limit=MAX_SIGNATURES)
    return Note(body + "\n", tuple(_parse_line(line) for line in lines))


def _parse_line(line: str) -> NoteSignature:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "\u2014":
        raise InvalidError("note")
    check_key_name(parts[1])
    blob = decode_base64(parts[2], "note")
    if len(blob) <= _KEY_ID_BYTES:
        raise InvalidError("note")
    return NoteSignature(parts[1], blob[:_KEY_ID_BYTES], blob[_KEY_ID_BYTES:])


def verify_note(text: str, public_keys: Iterable[VerifierKey]) -> VerifiedNote:
    """The checkpoint of a note and who of `public_keys` signed it.

    Lines of unknown keys are ignored, as the format asks. InvalidError: `note-signature` if a line of a
    known key does not hold or stands there twice, `note-unsigned` if no log key signed (cosignatures of
    witnesses alone don't make a checkpoint).
    """
    note = parse_note(text)
    known = {(key.name, key.key_id): key for key in public_keys}
    good: list[VerifierKey] = []
    times: dict[str, int] = {}
    for line in note.signatures:
        key = known.get((line.name, line.key_id))
        if key is None:
            continue
        if key in good or not _line_holds(key, note.body, line.blob):
            raise InvalidError("note-signature", name=key.name)
        good.append(key)
        if key.kind == COSIGNATURE_V1:
            times[key.name] = int.from_bytes(line.blob[:8])
    if not any(key.kind == ED25519 for key in good):
        raise InvalidError("note-unsigned")
    return VerifiedNote(parse_checkpoint(note.body), tuple(good), times)


def _line_holds(key: VerifierKey, body: str, blob: bytes) -> bool:
    if key.kind == ED25519:
        return len(blob) == SIGNATURE_BYTES and verify_signature(key.public_key, body.encode(), blob)
    time_s = int.from_bytes(blob[:8])
    if len(blob) != 8 + SIGNATURE_BYTES or time_s >= 2**63:
        return False
    return verify_signature(key.public_key, _cosigned(body, time_s), blob[8:])


def short_code(checkpoint: Checkpoint) -> str:
    """The anchor printed on pages: size and 80 bits of SHA-256 of the checkpoint's text, in base32.

    Whoever kept a paper with it can later check that the log still begins with what it stood for.
    """
    letters = base64.b32encode(sha256(checkpoint.body().encode()).digest()[:10]).decode()
    return "-".join([str(checkpoint.size), *(letters[at : at + 4] for at in range(0, 16, 4))])


def policy_text(logs: Sequence[VerifierKey], witnesses: Sequence[VerifierKey] = (), quorum: int = 0) -> str:
    """A tlog-policy: any of `logs` may sign, `quorum` of the witnesses must cosign (0: none has to)."""
    if quorum > len(witnesses):
        raise InvalidError("policy-quorum", quorum=quorum, witnesses=len(witnesses))
    lines = [f"log {key.vkey()}" for key in logs]
    lines += [f"witness w{nth} {key.vkey()}" for nth, key in enumerate(witnesses, 1)]
    if quorum:
        names = " ".join(f"w{nth}" for nth in range(1, len(witnesses) + 1))
        lines.append(f"group witnesses {quorum} {names}")
    lines.append(f"quorum {'witnesses' if quorum else 'none'}")
    return "\n".join(lines) + "\n"

"""Checkpoints: C2SP vectors, and what a reader must refuse."""

from __future__ import annotations

import base64
import hashlib

import pytest

from steelyard.evidence.checkpoint import (
    COSIGNATURE_V1,
    Checkpoint,
    VerifierKey,
    cosign,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    policy_text,
    short_code,
    sign_note,
    verify_note,
)
from steelyard.evidence.keys import Ed25519Signer
from steelyard.evidence.merkle import EMPTY_ROOT
from steelyard.model.errors import SteelyardError

# The key, text and signature that the reference implementation of signed notes tests itself with.
VKEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
SKEY = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz"
TEXT = (
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
)
LINE = (
    "\u2014 PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"  # noqa: E501
)
# The example of the specification of checkpoints.
EXAMPLE = "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n"

LOG = Ed25519Signer("log.example/1", bytes(range(32)))
WITNESS = Ed25519Signer("witness.example/w", b"\x07" * 32)
LOG_KEY = VerifierKey(LOG.name, LOG.public_key)
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.public_key, COSIGNATURE_V1)
HEAD = Checkpoint("log.example/1", 0, EMPTY_ROOT)
NOTE = sign_note(HEAD.body(), LOG)


def test_the_published_key_is_read_and_written() -> None:
    key = parse_vkey(VKEY)
    assert (key.name, key.key_id.hex(), key.vkey()) == ("PeterNeumann", "c74f20a3", VKEY)


def test_the_published_note_is_signed_byte_for_byte() -> None:
    signer = Ed25519Signer("PeterNeumann", base64.b64decode(SKEY)[1:])
    assert sign_note(TEXT, signer) == f"{TEXT}\n{LINE}"


def test_the_example_checkpoint_of_the_specification_is_read_and_written() -> None:
    head = parse_checkpoint(EXAMPLE)
    assert (head.origin, head.size) == ("example.com/behind-the-sofa", 20852163)
    assert head.body() == EXAMPLE


def test_every_part_of_the_published_key_alone_is_refused() -> None:
    for start in range(0, len(VKEY), 3):
        for stop in range(start + 1, len(VKEY) + 1, 5):
            if (start, stop) != (0, len(VKEY)):
                with pytest.raises(SteelyardError):
                    parse_vkey(VKEY[start:stop])


def test_a_signed_checkpoint_verifies_with_its_key() -> None:
    verified = verify_note(NOTE, [LOG_KEY, WITNESS_KEY])
    assert (verified.checkpoint, verified.keys) == (HEAD, (LOG_KEY,))


def test_every_flipped_bit_of_a_note_is_refused() -> None:
    data = NOTE.encode()
    for bit in range(len(data) * 8):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises((SteelyardError, UnicodeDecodeError)):
            verify_note(changed.decode(), [LOG_KEY])


def test_a_note_of_unknown_keys_only_is_refused() -> None:
    with pytest.raises(SteelyardError, match="note-unsigned"):
        verify_note(NOTE, [VerifierKey("other", LOG.public_key), VerifierKey(LOG.name, WITNESS.public_key)])


def test_a_cosignature_is_over_time_and_text() -> None:
    verified = verify_note(cosign(NOTE, WITNESS, 1_679_315_147), [LOG_KEY, WITNESS_KEY])
    assert verified.keys == (LOG_KEY, WITNESS_KEY)
    assert verified.cosigned_at == {"witness.example/w": 1_679_315_147}
    blob = parse_note(cosign(NOTE, WITNESS, 1_679_315_147)).signatures[1].blob
    assert blob[:8] == (1_679_315_147).to_bytes(8)
    message = f"cosignature/v1\ntime 1679315147\n{HEAD.body()}".encode()
    assert blob[8:] == WITNESS.sign(message)


def test_key_ids_of_logs_and_witnesses_differ_in_the_type_byte() -> None:
    for key, kind in ((LOG_KEY, 1), (WITNESS_KEY, 4)):
        expected = hashlib.sha256(key.name.encode() + b"\n" + bytes([kind]) + key.public_key).digest()[:4]
        assert key.key_id == expected


def test_a_cosignature_for_another_text_or_alone_is_refused() -> None:
    other = sign_note(Checkpoint("log.example/1", 1, bytes(32)).body(), LOG)
    line = cosign(NOTE, WITNESS, 5)[len(NOTE) :]
    with pytest.raises(SteelyardError, match="note-signature"):
        verify_note(other + line, [LOG_KEY, WITNESS_KEY])
    with pytest.raises(SteelyardError, match="note-unsigned"):
        verify_note(f"{HEAD.body()}\n{line}", [LOG_KEY, WITNESS_KEY])


def test_the_same_signature_twice_is_refused() -> None:
    line = NOTE[len(HEAD.body()) + 1 :]
    with pytest.raises(SteelyardError, match="note-signature"):
        verify_note(NOTE + line, [LOG_KEY])


@pytest.mark.parametrize(
    "body",
    [
        "o\n01\n" + EXAMPLE.split("\n")[2] + "\n",
        "o\n-1\n" + EXAMPLE.split("\n")[2] + "\n",
        "\n1\n" + EXAMPLE.split("\n")[2] + "\n",
        "o\n1\nAAAA\n",
        "o\n1\n" + EXAMPLE.split("\n")[2].rstrip("=") + "\n",
        EXAMPLE + "extension\n",
        EXAMPLE.rstrip("\n"),
        "o\n١\n" + EXAMPLE.split("\n")[2] + "\n",
    ],
)
def test_malformed_tree_heads_are_refused(body: str) -> None:
    with pytest.raises(SteelyardError, match="checkpoint"):
        parse_checkpoint(body)


@pytest.mark.parametrize("text", ["", "a\n", "a\n\n", "a\n\n- x y\n", "a\n\n— x AAAA\n", "a\r\n\n" + LINE])
def test_malformed_notes_are_refused(text: str) -> None:
    with pytest.raises(SteelyardError, match="note"):
        parse_note(text)


def test_the_short_code_names_size_and_content() -> None:
    code = short_code(parse_checkpoint(EXAMPLE))
    letters = base64.b32encode(hashlib.sha256(EXAMPLE.encode()).digest()).decode()[:16]
    assert code == f"20852163-{letters[:4]}-{letters[4:8]}-{letters[8:12]}-{letters[12:]}"


def test_a_policy_names_logs_witnesses_and_quorum() -> None:
    assert policy_text([LOG_KEY]) == f"log {LOG_KEY.vkey()}\nquorum none\n"
    assert policy_text([LOG_KEY], [WITNESS_KEY], 1).splitlines()[1:] == [
        f"witness w1 {WITNESS_KEY.vkey()}",
        "group witnesses 1 w1",
        "quorum witnesses",
    ]
    with pytest.raises(SteelyardError, match="policy-quorum"):
        policy_text([LOG_KEY], [], 1)

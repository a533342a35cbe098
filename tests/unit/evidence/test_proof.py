"""The tlog-proof text format."""

from __future__ import annotations

import pytest

from steelyard.evidence.checkpoint import Checkpoint, sign_note
from steelyard.evidence.keys import Ed25519Signer
from steelyard.evidence.proof import parse_tlog_proof, render_tlog_proof
from steelyard.model.errors import SteelyardError

NOTE = sign_note(Checkpoint("o", 9, bytes(32)).body(), Ed25519Signer("o", bytes(32)))
STEPS = [bytes([nth]) * 32 for nth in range(3)]


def test_a_proof_is_written_as_the_format_says() -> None:
    lines = render_tlog_proof(7, b"leaf", STEPS[:1], NOTE).split("\n")
    assert lines[:5] == [
        "c2sp.org/tlog-proof@v1",
        "extra bGVhZg==",
        "index 7",
        "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
        "",
    ]
    assert "\n".join(lines[5:]) == NOTE


@pytest.mark.parametrize("leaf", [b"leaf", b"", None])
@pytest.mark.parametrize("count", [0, 3])
def test_a_proof_is_read_as_it_was_written(leaf: bytes | None, count: int) -> None:
    parsed = parse_tlog_proof(render_tlog_proof(0, leaf, STEPS[:count], NOTE))
    assert (parsed.index, parsed.extra, parsed.proof) == (0, leaf, tuple(STEPS[:count]))
    assert parsed.checkpoint_note == NOTE


@pytest.mark.parametrize(
    "text",
    [
        f"c2sp.org/tlog-proof@v2\nindex 0\n\n{NOTE}",
        f"c2sp.org/tlog-proof@v1\n\n{NOTE}",
        f"c2sp.org/tlog-proof@v1\nindex 00\n\n{NOTE}",
        f"c2sp.org/tlog-proof@v1\nindex 0\nAAAA\n\n{NOTE}",
        f"c2sp.org/tlog-proof@v1\nindex 0\nextra AAAA\n\n{NOTE}",
        "c2sp.org/tlog-proof@v1\nindex 0\n",
    ],
)
def test_malformed_proofs_are_refused(text: str) -> None:
    with pytest.raises(SteelyardError, match="tlog-proof"):
        parse_tlog_proof(text)

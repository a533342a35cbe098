"""Inclusion proofs as files: the C2SP tlog-proof text format (c2sp.org/tlog-proof@v1)."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from dataclasses import dataclass

from steelyard.evidence.checkpoint import parse_note
from steelyard.evidence.keys import decode_base64
from steelyard.evidence.merkle import HASH_BYTES
from steelyard.model.errors import InvalidError

HEADER = "c2sp.org/tlog-proof@v1"
_INDEX = re.compile(r"index (0|[1-9][0-9]{0,18})")


@dataclass(frozen=True, slots=True)
class TlogProof:
    """A proof file taken apart; nothing is verified yet. `extra` (for us: the leaf) is not authenticated."""

    index: int
    extra: bytes | None
    proof: tuple[bytes, ...]
    checkpoint_note: str


def render_tlog_proof(
    index: int, leaf_bytes: bytes | None, proof: Sequence[bytes], checkpoint_note: str
) -> str:
    """The text of a `.tlog-proof` file; the leaf, if given, goes into its `extra` line."""
    lines = [HEADER]
    if leaf_bytes is not None:
        lines.append(f"extra {base64.b64encode(leaf_bytes).decode()}")
    lines.append(f"index {index}")
    lines += [base64.b64encode(step).decode() for step in proof]
    return "\n".join(lines) + "\n\n" + checkpoint_note


def parse_tlog_proof(text: str) -> TlogProof:
    """Inverse of `render_tlog_proof`; InvalidError `tlog-proof` for anything malformed."""
    head, found, note = text.partition("\n\n")
    lines = head.split("\n")
    if not found or lines.pop(0) != HEADER:
        raise InvalidError("tlog-proof")
    extra = None
    if lines and lines[0].startswith("extra "):
        extra = decode_base64(lines.pop(0)[6:], "tlog-proof")
    match = _INDEX.fullmatch(lines.pop(0)) if lines else None
    steps = tuple(decode_base64(line, "tlog-proof") for line in lines)
    if match is None or any(len(step) != HASH_BYTES for step in steps):
        raise InvalidError("tlog-proof")
    parse_note(note)
    return TlogProof(int(match[1]), extra, steps, note)

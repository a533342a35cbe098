"""Evidence bundles: the files of audit/, the manifest, its signature, and the verifier that goes along.

A bundle is a set of files by path. The manifest lists all of them with SHA-256 and size (in-toto Statement
v1, sorted by name) and is signed in a DSSE v1 envelope; only `manifest.json`, `manifest.dsse.json` and the
closed list of `signoff/` stand outside. Envelopes and payloads are canonical JSON, so that there is one way
to write them and any other is found.

Functions from bytes to bytes; the one thing read is this package's own verifier and its instructions.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib import resources
from typing import Any

from steelyard.evidence import verify
from steelyard.evidence.canonical import encode
from steelyard.evidence.keys import Signer, fingerprint, key_record
from steelyard.evidence.leaf import Head, heads_detail
from steelyard.evidence.proof import render_tlog_proof
from steelyard.model.errors import InvalidError

PAYLOAD_TYPE = verify.PAYLOAD_TYPE
PREDICATE_TYPE = verify.PREDICATE_TYPE
SIGNOFF_TYPE = verify.SIGNOFF_TYPE
ROLES = verify.ROLES
MANIFEST, ENVELOPE = "manifest.json", "manifest.dsse.json"
VERIFIER, INSTRUCTIONS = "verify/verify.py", "verify/VERIFY.md"
_SEGMENT = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=@-]*")

FileContent = bytes | tuple[str, int]
"""A file's bytes, or its hex SHA-256 and size where the bytes are elsewhere (large logs on disk)."""


def _described(content: FileContent) -> tuple[str, int]:
    return (sha256(content).hexdigest(), len(content)) if isinstance(content, bytes) else content


def check_path(path: str) -> None:
    """Refuse paths that some file system would change or hide; InvalidError `bundle-path`."""
    sound = all(_SEGMENT.fullmatch(part) and part[-1] != "." for part in path.split("/"))
    if not sound or path in (MANIFEST, ENVELOPE) or path.split("/")[0] == "signoff":
        raise InvalidError("bundle-path", path=path[:200])


def manifest(files: Mapping[str, FileContent], predicate: Mapping[str, Any]) -> bytes:
    """The in-toto Statement over these files; `file_count` is added to the predicate.

    InvalidError: `bundle-path`, or `bundle-path-collision` for names that differ in case only.
    """
    folded: dict[str, str] = {}
    subjects = []
    for path in sorted(files):
        check_path(path)
        other = folded.setdefault(path.casefold(), path)
        if other != path:
            raise InvalidError("bundle-path-collision", path=path[:200], other=other[:200])
        digest, size = _described(files[path])
        subjects.append({"name": path, "digest": {"sha256": digest}, "annotations": {"size": size}})
    return _statement(subjects, PREDICATE_TYPE, {**predicate, "file_count": len(subjects)})


def _statement(subjects: list[dict[str, Any]], predicate_type: str, predicate: dict[str, Any]) -> bytes:
    return encode(
        {
            "_type": verify.STATEMENT_TYPE,
            "subject": subjects,
            "predicateType": predicate_type,
            "predicate": predicate,
        }
    )


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE v1 pre-authentication encoding: what is signed."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def dsse(payload: bytes, payload_type: str, signers: Sequence[Signer]) -> bytes:
    """The DSSE envelope as canonical bytes, signatures sorted by key id (the key's fingerprint)."""
    message = pae(payload_type, payload)
    signatures = [
        {"keyid": fingerprint(signer.public_key), "sig": base64.b64encode(signer.sign(message)).decode()}
        for signer in sorted(signers, key=lambda signer: fingerprint(signer.public_key))
    ]
    return encode(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": payload_type,
            "signatures": signatures,
        }
    )


def verifier_files() -> dict[str, bytes]:
    """The verifier and the steps by hand, as they go into every bundle."""
    package = resources.files("steelyard.evidence")
    return {
        VERIFIER: package.joinpath("verify.py").read_bytes(),
        INSTRUCTIONS: package.joinpath("VERIFY.md").read_bytes(),
    }


def seal(files: Mapping[str, FileContent], predicate: Mapping[str, Any], signer: Signer) -> dict[str, bytes]:
    """`manifest.json` and `manifest.dsse.json` over these files, the signer named in the predicate.

    For bundles too large to hold in memory; the files of `verifier_files` have to be among `files`.
    """
    signers = [key_record(signer.name, signer.public_key)]
    payload = manifest(files, {**predicate, "signers": signers})
    return {MANIFEST: payload, ENVELOPE: dsse(payload, PAYLOAD_TYPE, [signer])}


def assemble_bundle(
    files: Mapping[str, bytes], predicate: Mapping[str, Any], signer: Signer
) -> dict[str, bytes]:
    """The whole bundle by path: `files`, the verifier with its instructions, the signed manifest."""
    listed = {**files, **verifier_files()}
    return {**listed, **seal(listed, predicate, signer)}


def sign_off(
    manifest_bytes: bytes, role: str, decision: str, signer: Signer, answers: Mapping[str, Any] | None = None
) -> tuple[str, bytes]:
    """Path and envelope of a role's statement over the whole set (by the manifest's digest).

    InvalidError `sign-off-role` or `sign-off-decision` for words that are not in the closed lists.
    """
    if role not in ROLES:
        raise InvalidError("sign-off-role", role=role[:80])
    if decision not in verify.DECISIONS:
        raise InvalidError("sign-off-decision", decision=decision[:80])
    predicate: dict[str, Any] = {
        "role": role,
        "decision": decision,
        "answers": dict(answers or {}),
        "signers": [key_record(signer.name, signer.public_key)],
    }
    subject = {"name": MANIFEST, "digest": {"sha256": sha256(manifest_bytes).hexdigest()}}
    payload = _statement([subject], SIGNOFF_TYPE, predicate)
    return f"signoff/{role}.dsse.json", dsse(payload, PAYLOAD_TYPE, [signer])


def audit_files(
    *,
    leaf_bodies: Sequence[bytes] | None,
    start_note: str,
    end_note: str,
    sizes: tuple[int, int],
    consistency: Sequence[bytes],
    policy: str,
    complete: bool,
    heads: Mapping[str, Head] | None = None,
    heads_seq: int | None = None,
    proofs: Mapping[int, Sequence[bytes]] | None = None,
) -> dict[str, bytes]:
    """The files of audit/ by path. `leaf_bodies` None: the caller writes that file itself, a line a leaf.

    `complete`: the leaves are all of 0 … end. Otherwise `heads` are those of the stream-heads leaf with seq
    `heads_seq`, which is among the leaves like all leaves of these streams before it (and the leaves of the
    log's key), and `proofs` has the inclusion proof of every leaf by its seq. `sizes` are those of the start
    and end checkpoints, `consistency` the proof between them.
    """
    leaves = None if leaf_bodies is None else b"".join(body + b"\n" for body in leaf_bodies)
    files = {} if leaves is None else {verify.LEAVES: leaves}
    files |= {
        verify.START: start_note.encode(),
        verify.END: end_note.encode(),
        verify.POLICY: policy.encode(),
        verify.CONSISTENCY: encode(
            {"v": 1, "from": sizes[0], "to": sizes[1], "proof": [step.hex() for step in consistency]}
        ),
        verify.HEADS: encode(
            {"v": 1, "complete": complete, "seq": heads_seq, "heads": heads_detail(heads or {})}
        ),
    }
    for seq, proof in (proofs or {}).items():
        files[f"audit/{seq}.tlog-proof"] = render_tlog_proof(seq, None, proof, end_note).encode()
    return files

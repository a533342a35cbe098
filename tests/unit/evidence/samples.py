"""A small log and the bundles made of it, for the tests of the verifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.evidence import bundle
from steelyard.evidence.canonical import encode
from steelyard.evidence.checkpoint import (
    COSIGNATURE_V1,
    Checkpoint,
    VerifierKey,
    cosign,
    policy_text,
    sign_note,
)
from steelyard.evidence.keys import Ed25519Signer, rotation_statement
from steelyard.evidence.leaf import (
    ActorRef,
    Head,
    LeafDraft,
    LogState,
    key_rotation_draft,
    restored_draft,
    sequence,
    stream_heads_draft,
)
from steelyard.evidence.merkle import TileProofReader, consistency_proof, inclusion_proof, root_of

ORIGIN = "steelyard.example/log"
KEY = Ed25519Signer(ORIGIN, b"\x01" * 32)
NEXT_KEY = Ed25519Signer(ORIGIN, b"\x02" * 32)
WITNESS = Ed25519Signer("witness.example/security", b"\x03" * 32)
SECURITY = Ed25519Signer("security.example", b"\x04" * 32)
ALICE, LOOP = ActorRef("us_1", groups=("gr_1",)), ActorRef("sv_schedule", "service")
WITNESS_KEY = VerifierKey(WITNESS.name, WITNESS.public_key, COSIGNATURE_V1)
T0 = 1_700_000_000_000_000
HOUR = 3_600_000_000


def log_key(signer: Ed25519Signer) -> VerifierKey:
    return VerifierKey(signer.name, signer.public_key)


class SampleLog:
    """Leaves in memory, and everything that a store would answer about them."""

    def __init__(self) -> None:
        self.state, self.heads = LogState(), dict[str, Head]()
        self.bodies: list[bytes] = []
        self.hashes: list[bytes] = []

    def add(self, *items: tuple[ActorRef, LeafDraft], ts: int | None = None) -> int:
        """Append; returns the seq of the last leaf."""
        made = sequence(self.state, T0 + self.state.size if ts is None else ts, items, self.heads.get)
        self.state = made.state
        self.heads.update(made.heads)
        self.bodies += [row.body for row in made.rows]
        self.hashes += [row.hash for row in made.rows]
        return made.state.size - 1

    def checkpoint(self, size: int, signer: Ed25519Signer = KEY) -> str:
        return sign_note(self.head(size).body(), signer)

    def head(self, size: int) -> Checkpoint:
        return Checkpoint(ORIGIN, size, root_of(self.hashes[:size]))

    def reader(self) -> TileProofReader:
        return TileProofReader(lambda level, index: None, self.hashes.__getitem__)


def work(log: SampleLog, count: int = 12) -> None:
    """Two projects submit, a loop places; one is refused, with reasons in Chinese and English."""
    for nth in range(count):
        project, workload = f"pj_{nth % 2}", f"wl_{nth // 2}"
        extra = {"reasons": [{"code": "quota", "text": "配额不足 quota \u2028 \x7f"}]} if nth == 3 else None
        draft = LeafDraft("workload.submit", "workload", workload, None, 1, project=project, extra=extra)
        placed = LeafDraft("workload.phase", "workload", workload, 1, 2, project=project, cluster="cl_1")
        log.add((ALICE, draft), (LOOP, placed))


def usage_files() -> dict[str, bytes]:
    """Two devices over an hour, one of them idle and out of order in turn."""
    capacity, segments = [], []
    for device in ("dv_1", "dv_2"):
        base = {"resource": device, "class": "gpu", "dimension": "device"}
        capacity.append({**base, "capacity": 1000, "t0": T0, "t1": T0 + HOUR})
        for quantity, start, end, kind in (
            (1000, 0, 600, "holding"),
            (400, 600, 1800, "holding"),
            (600, 600, 1800, "idle"),
            (1000, 1800, 3000, "unavailable"),
            (1000, 3000, 3600, "unknown"),
        ):
            times = {"t0": T0 + start * 1_000_000, "t1": T0 + end * 1_000_000}
            segments.append({**base, **times, "quantity": quantity, "kind": kind, "id": f"{device}-{start}"})
    return {
        "usage/segments.jsonl": b"".join(encode(row) + b"\n" for row in segments),
        "usage/capacity.jsonl": b"".join(encode(row) + b"\n" for row in capacity),
    }


OTHER_FILES = {
    "report.html": "<!doctype html><title>报告</title>\n".encode(),
    "plan/plan.json": encode({"digest": "ab" * 32}),
    "plan/scope.json": encode({"scope": "all"}),
    "verdicts/checks.json": b"[]",
    "usage/report.json": b"{}",
    "runs/S1/1/empty.log": b"",
}
PREDICATE = {"plan_digest": "ab" * 32, "adapter": "unified", "simulated": True}


def sealed(audit: Mapping[str, bytes], signer: Ed25519Signer = KEY, **predicate: Any) -> dict[str, bytes]:
    files = {**OTHER_FILES, **usage_files(), **audit}
    return bundle.assemble_bundle(files, {**PREDICATE, **predicate}, signer)


def complete_audit(log: SampleLog, start: int, **changes: Any) -> dict[str, bytes]:
    """audit/ of the whole log; `changes` go to `bundle.audit_files`."""
    size = len(log.bodies)
    arguments: dict[str, Any] = {
        "leaf_bodies": log.bodies,
        "start_note": log.checkpoint(start),
        "end_note": log.checkpoint(size),
        "sizes": (start, size),
        "consistency": consistency_proof(start, size, log.reader()),
        "policy": policy_text([log_key(KEY)]),
        "complete": True,
    }
    return bundle.audit_files(**{**arguments, **changes})


def complete_bundle(start: int = 5) -> dict[str, bytes]:
    """The whole log of some work, with a stream-heads leaf, signed with the log's key."""
    log = SampleLog()
    work(log)
    names = ["project/pj_0", "system"]
    asked = {name: log.heads[name] for name in names}
    seq = log.add((ALICE, stream_heads_draft(asked)))
    work(log, 3)
    return sealed(complete_audit(log, start, heads=asked, heads_seq=seq))


def stream_bundle(names: Sequence[str] = ("project/pj_1",), **changes: Any) -> dict[str, bytes]:
    """Only the leaves of some streams, each with its proof."""
    log = SampleLog()
    work(log)
    asked = {name: log.heads[name] for name in names}
    heads_seq = log.add((ALICE, stream_heads_draft(asked)))
    work(log, 2)
    size = len(log.bodies)
    chosen = [
        seq
        for seq, body in enumerate(log.bodies[:heads_seq])
        if any(b'"name":"' + name.encode() + b'"' in body for name in names)
    ] + [heads_seq]
    arguments: dict[str, Any] = {
        "leaf_bodies": [log.bodies[seq] for seq in chosen],
        "complete": False,
        "heads": asked,
        "heads_seq": heads_seq,
        "proofs": {seq: inclusion_proof(seq, size, log.reader()) for seq in chosen},
    }
    return sealed(complete_audit(log, 5, **{**arguments, **changes}))


def rotated_bundle(end_key: Ed25519Signer = NEXT_KEY, signer: Ed25519Signer = NEXT_KEY) -> dict[str, bytes]:
    """A log whose key changed, and which was restored once."""
    log = SampleLog()
    work(log, 4)
    start = len(log.bodies)
    log.add((LOOP, key_rotation_draft(rotation_statement(KEY, NEXT_KEY, start))))
    log.add((LOOP, restored_draft(start, root_of(log.hashes[:start]))))
    work(log, 4)
    size = len(log.bodies)
    end, policy = log.checkpoint(size, end_key), policy_text([log_key(KEY), log_key(NEXT_KEY)])
    return sealed(complete_audit(log, start, end_note=end, policy=policy), signer)


def witnessed_bundle(
    quorum: int = 1, witness: Ed25519Signer = WITNESS, cosigned: bool = True
) -> dict[str, bytes]:
    """A log whose end checkpoint a witness has co-signed (or ought to have)."""
    log = SampleLog()
    work(log, 4)
    end = log.checkpoint(len(log.bodies))
    key = VerifierKey(witness.name, witness.public_key, COSIGNATURE_V1)
    policy = policy_text([log_key(KEY)], [key], quorum)
    end = cosign(end, witness, 1_700_000_100) if cosigned else end
    return sealed(complete_audit(log, 3, end_note=end, policy=policy))


def write(files: Mapping[str, bytes], folder: Path) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder

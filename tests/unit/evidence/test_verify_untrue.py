"""Bundles that are signed but not true (what the holder of the key can do): each fails by the file's name."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from steelyard.evidence import bundle, verify
from steelyard.evidence.bundle import ENVELOPE, MANIFEST
from steelyard.evidence.canonical import encode
from steelyard.evidence.checkpoint import Checkpoint, policy_text, sign_note
from steelyard.evidence.keys import Ed25519Signer, fingerprint, rotation_statement
from steelyard.evidence.leaf import (
    Head,
    key_lost_draft,
    key_revocation_draft,
    key_rotation_draft,
    stream_heads_draft,
)
from steelyard.evidence.merkle import leaf_hash
from steelyard.evidence.verify import CAPACITY, CONSISTENCY, END, HEADS, LEAVES, POLICY, SEGMENTS, START
from tests.unit.evidence.samples import (
    KEY,
    LOOP,
    NEXT_KEY,
    ORIGIN,
    SECURITY,
    SampleLog,
    complete_audit,
    complete_bundle,
    log_key,
    rotated_bundle,
    sealed,
    stream_bundle,
    usage_files,
    witnessed_bundle,
    work,
    write,
)

PROOF_OF_2 = "audit/2.tlog-proof"
Files = dict[str, bytes]
FINGERPRINT = fingerprint(KEY.public_key)
WHOLE = complete_bundle()


def found(files: Files, folder: Path, *keys: str) -> set[tuple[str, str]]:
    """(file, code) of every problem."""
    report = verify.check_bundle(str(write(files, folder)), keys)
    return {(problem.file, problem.code) for problem in report.problems}


# --- mutants: signed again by whoever has the key, but not true ------------------------------------------


def worked(count: int = 6) -> SampleLog:
    log = SampleLog()
    work(log, count)
    return log


def rewritten(nth: int, change: Callable[[dict[str, Any]], None], *, resign: bool) -> Files:
    """A leaf rewritten in place; `resign`: the end checkpoint then is over the rewritten leaves."""
    log = worked()
    start, end = log.checkpoint(3), log.checkpoint(len(log.bodies))
    consistency = json.loads(complete_audit(log, 3)[CONSISTENCY])["proof"]
    value = json.loads(log.bodies[nth])
    change(value)
    log.bodies[nth] = encode(value)
    log.hashes[nth] = leaf_hash(log.bodies[nth])
    if resign:
        return sealed(complete_audit(log, 3))
    steps = [bytes.fromhex(step) for step in consistency]
    return sealed(complete_audit(log, 3, start_note=start, end_note=end, consistency=steps))


def audited(**changes: Any) -> Files:
    return sealed(complete_audit(worked(), 3, **changes))


def middle_dropped() -> Files:
    log = worked()
    return audited(leaf_bodies=log.bodies[:5] + log.bodies[6:])


def stream_without_its_last() -> Files:
    """The last leaf of the stream before the heads leaf is left out, with its proof."""
    bodies = stream_bundle()[LEAVES].split(b"\n")[:-1]
    dropped = bodies[:-2] + bodies[-1:]
    return stream_bundle(leaf_bodies=dropped, proofs=_proofs(dropped))


def stream_without_its_third() -> Files:
    bodies = stream_bundle()[LEAVES].split(b"\n")[:-1]
    dropped = bodies[:2] + bodies[3:]
    return stream_bundle(leaf_bodies=dropped, proofs=_proofs(dropped))


def _proofs(bodies: list[bytes]) -> dict[int, list[bytes]]:
    files = stream_bundle()
    proofs = {}
    for body in bodies:
        seq = json.loads(body)["seq"]
        lines = files[f"audit/{seq}.tlog-proof"].decode().split("\n\n")[0].split("\n")[2:]
        proofs[seq] = [base64.b64decode(line) for line in lines]
    return proofs


def stream_with_a_foreign_proof() -> Files:
    bodies = stream_bundle()[LEAVES].split(b"\n")[:-1]
    proofs = _proofs(bodies)
    first, second = sorted(proofs)[:2]
    proofs[first], proofs[second] = proofs[second], proofs[first]
    return stream_bundle(proofs=proofs)


def rotation_changed(**change: Any) -> Files:
    log = worked()
    statement = {**rotation_statement(KEY, NEXT_KEY, len(log.bodies)), **change}
    log.add((LOOP, key_rotation_draft(statement)))
    policy = policy_text([log_key(KEY), log_key(NEXT_KEY)])
    end = log.checkpoint(len(log.bodies), NEXT_KEY)
    return sealed(complete_audit(log, 3, end_note=end, policy=policy), NEXT_KEY)


def revoked_key_signs_on() -> Files:
    log = worked()
    log.add((LOOP, key_revocation_draft(FINGERPRINT, "key-stolen")))
    return sealed(complete_audit(log, 3))


def given_up(end_key: Ed25519Signer = NEXT_KEY, twice: bool = False) -> Files:
    """A log whose key was lost; `twice` from the same one again."""
    log = worked()
    for nth, key in enumerate((NEXT_KEY, SECURITY) if twice else (NEXT_KEY,)):
        successor = {"name": key.name, "fingerprint": fingerprint(key.public_key), "vkey": "-"}
        log.add((LOOP, key_lost_draft(FINGERPRINT, successor, nth)))
    policy = policy_text([log_key(KEY), log_key(NEXT_KEY)])
    end = log.checkpoint(len(log.bodies), end_key)
    return sealed(complete_audit(log, 3, end_note=end, policy=policy), end_key)


def usage_replaced(name: str, old: bytes, new: bytes) -> Files:
    files = {**usage_files(), **complete_audit(worked(), 3)}
    assert old in files[name]
    files[name] = files[name].replace(old, new, 1)
    return bundle.assemble_bundle(files, {}, KEY)


def change_object(value: dict[str, Any]) -> None:
    value["outcome"] = "refused"


def change_stream_counter(value: dict[str, Any]) -> None:
    value["streams"][0]["n"] += 1


def change_stream_link(value: dict[str, Any]) -> None:
    value["streams"][0]["prev"] = "00" * 32


def change_stream_name(value: dict[str, Any]) -> None:
    value["streams"][1]["name"] = "object/workload/wl_other"


def change_seq(value: dict[str, Any]) -> None:
    value["seq"] += 100


def drop_field(value: dict[str, Any]) -> None:
    del value["trace_id"]


def heads_claimed_wrong() -> Files:
    """A stream-heads leaf that pins a stream one leaf too short."""
    log = worked()
    short = log.heads["system"]._replace(n=log.heads["system"].n - 1)
    seq = log.add((LOOP, stream_heads_draft({"system": short})))
    return sealed(complete_audit(log, 3, heads={"system": short}, heads_seq=seq))


AGAIN: list[tuple[str, Callable[[], Files], str, str]] = [
    ("T1 a leaf edited under its checkpoint", lambda: rewritten(4, change_object, resign=False),
     LEAVES, "root"),
    ("T1 an early leaf edited under the start", lambda: rewritten(1, change_object, resign=False),
     LEAVES, "root"),
    ("T4 a leaf edited, all signed anew, links left", lambda: rewritten(4, change_object, resign=True),
     LEAVES, "stream-link"),
    ("T2 a leaf dropped from the middle", middle_dropped, LEAVES, "seq"),
    ("T3 the tail dropped", lambda: audited(leaf_bodies=worked().bodies[:-1]),
     LEAVES, "count-leaves"),
    ("a stream counter with a gap", lambda: rewritten(11, change_stream_counter, resign=True),
     LEAVES, "stream-gap"),
    ("a stream link broken", lambda: rewritten(11, change_stream_link, resign=True),
     LEAVES, "stream-link"),
    ("a leaf in a stream that is not its own", lambda: rewritten(11, change_stream_name, resign=True),
     LEAVES, "stream-name"),
    ("a leaf with another seq", lambda: rewritten(11, change_seq, resign=True), LEAVES, "seq"),
    ("a leaf without a field", lambda: rewritten(11, drop_field, resign=True), LEAVES, "leaf"),
    ("T10 a leaf that is not canonical",
     lambda: audited(leaf_bodies=[worked().bodies[0].replace(b":", b": ", 1), *worked().bodies[1:]]),
     LEAVES, "leaf"),
    ("leaves out of order", lambda: audited(leaf_bodies=worked().bodies[::-1]),
     LEAVES, "seq-order"),
    ("T2 a stream without its last leaf", stream_without_its_last, LEAVES, "stream-end"),
    ("T2 a stream without its third leaf", stream_without_its_third, LEAVES, "stream-gap"),
    ("a leaf without its proof", lambda: stream_bundle(proofs={}), LEAVES, "no-proof"),
    ("proofs of other leaves", stream_with_a_foreign_proof, PROOF_OF_2, "inclusion"),
    ("a heads file that no leaf backs", lambda: stream_bundle(heads_seq=3), HEADS, "heads-leaf"),
    ("a heads leaf one short", heads_claimed_wrong, LEAVES, "stream-end"),
    ("a leaf of no stream asked for",
     lambda: stream_bundle(heads={"project/pj_x": Head(1, 0, bytes(32))}),
     LEAVES, "no-stream"),
    ("T5 a start of another history",
     lambda: audited(start_note=sign_note(Checkpoint(ORIGIN, 3, bytes(32)).body(), KEY)),
     CONSISTENCY, "consistency"),
    ("T11 a start later than the end",
     lambda: audited(start_note=sign_note(Checkpoint(ORIGIN, 99, bytes(32)).body(), KEY)),
     START, "ckpt-order"),
    ("a consistency proof of other sizes", lambda: audited(sizes=(2, 12)),
     CONSISTENCY, "consistency"),
    ("a consistency proof cut", lambda: audited(consistency=[]), CONSISTENCY, "consistency"),
    ("checkpoints of another log",
     lambda: audited(start_note=sign_note(Checkpoint("other/log", 3, bytes(32)).body(), KEY)),
     START, "origin"),
    ("T12 an end that another key signed", lambda: audited(end_note=worked().checkpoint(12, NEXT_KEY)),
     END, "unsigned"),
    ("T12 a key without a change leading to it",
     lambda: audited(policy=policy_text([log_key(KEY), log_key(NEXT_KEY)])), POLICY, "policy-key"),
    ("T12 a change of keys that is not signed", lambda: rotation_changed(seq=1), LEAVES, "rotation"),
    ("T12 the old key signs the end", lambda: rotated_bundle(end_key=KEY), END, "ckpt-key"),
    ("T12 the old key signs the manifest", lambda: rotated_bundle(signer=KEY), ENVELOPE, "rotated-out"),
    ("T12 a lost key signs on", lambda: given_up(KEY), END, "ckpt-key"),
    ("T12 a key is lost that the log no longer had", lambda: given_up(twice=True), LEAVES, "rotation-chain"),
    ("T12 a revoked key signs on", revoked_key_signs_on, END, "revoked"),
    ("a quorum that was not reached", lambda: witnessed_bundle(cosigned=False), END, "quorum"),
    ("a witness with the log's own key", lambda: witnessed_bundle(witness=KEY), POLICY, "malformed"),
    ("a policy without a quorum", lambda: audited(policy=f"log {log_key(KEY).vkey()}\n"),
     POLICY, "malformed"),
    ("a policy with an unknown word", lambda: audited(policy=f"trust {log_key(KEY).vkey()}\nquorum none\n"),
     POLICY, "policy"),
    ("usage that exceeds capacity",
     lambda: usage_replaced(SEGMENTS, b'"quantity":1000', b'"quantity":1001'),
     SEGMENTS, "conservation"),
    ("usage with a moment missing",
     lambda: usage_replaced(SEGMENTS, b'"t0":1700000600000000', b'"t0":1700000600000001'),
     SEGMENTS, "conservation"),
    ("usage of an unknown kind", lambda: usage_replaced(SEGMENTS, b'"kind":"idle"', b'"kind":"free"'),
     SEGMENTS, "row"),
    ("usage in floats", lambda: usage_replaced(SEGMENTS, b":1000,", b":1000.0,"),
     SEGMENTS, "row"),
    ("a capacity of null", lambda: usage_replaced(CAPACITY, b'"capacity":1000', b'"capacity":null'),
     CAPACITY, "row"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "file", "code"), [row[1:] for row in AGAIN], ids=[row[0] for row in AGAIN])
def test_a_bundle_that_is_signed_but_not_true_fails_by_name(
    make: Callable[[], Files], file: str, code: str, tmp_path: Path
) -> None:
    assert (file, code) in found(make(), tmp_path)


def statement_of(change: Callable[[dict[str, Any]], None]) -> Files:
    """A bundle whose manifest was changed before it was signed."""
    value = json.loads(WHOLE[MANIFEST])
    change(value)
    payload = encode(value)
    envelope = bundle.dsse(payload, bundle.PAYLOAD_TYPE, [KEY])
    return {**WHOLE, MANIFEST: payload, ENVELOPE: envelope}


MANIFESTS: list[tuple[str, Callable[[dict[str, Any]], Any], str, str]] = [
    ("count", lambda value: value["predicate"].update(file_count=1), MANIFEST, "count"),
    ("order", lambda value: value["subject"].reverse(), MANIFEST, "order"),
    ("twice", lambda value: value["subject"].append(value["subject"][-1]), MANIFEST, "order"),
    ("name", lambda value: value["subject"][0].update(name="../a"), "../a", "name"),
    ("type", lambda value: value.update(predicateType="x"), ENVELOPE, "type"),
    ("no signer", lambda value: value["predicate"].update(signers=[]), ENVELOPE, "keyid"),
    ("size", lambda value: value["subject"][0]["annotations"].update(size=1), CONSISTENCY, "size"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "file", "code"), [row[1:] for row in MANIFESTS], ids=[row[0] for row in MANIFESTS]
)
def test_an_unsound_manifest_fails_though_it_is_signed(
    change: Callable[[dict[str, Any]], None], file: str, code: str, tmp_path: Path
) -> None:
    assert (file, code) in found(statement_of(change), tmp_path)

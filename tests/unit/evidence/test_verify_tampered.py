"""Bundles changed after they were signed (what a stranger can do): each fails by the file's name."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from steelyard.evidence import bundle, verify
from steelyard.evidence.bundle import ENVELOPE, MANIFEST
from steelyard.evidence.canonical import encode
from steelyard.evidence.keys import Ed25519Signer, fingerprint
from steelyard.evidence.verify import END, LEAVES, POLICY, SEGMENTS, START
from tests.unit.evidence.samples import (
    KEY,
    NEXT_KEY,
    SECURITY,
    complete_bundle,
    stream_bundle,
    witnessed_bundle,
    write,
)

SECURITY_FILE = "signoff/security.dsse.json"
Files = dict[str, bytes]
FINGERPRINT = fingerprint(KEY.public_key)
WHOLE = complete_bundle()
PART = stream_bundle()


def found(files: Files, folder: Path, *keys: str) -> set[tuple[str, str]]:
    """(file, code) of every problem."""
    report = verify.check_bundle(str(write(files, folder)), keys)
    return {(problem.file, problem.code) for problem in report.problems}


# --- one flipped bit in any file ----------------------------------------------------------------------


@pytest.mark.parametrize("name", [*sorted(WHOLE), *(name for name in sorted(PART) if name not in WHOLE)])
def test_a_flipped_bit_in_any_file_fails_and_names_the_file(name: str, tmp_path: Path) -> None:
    files = WHOLE if name in WHOLE else PART
    write(files, tmp_path)
    content = files[name]
    places = {0, len(content) // 3, len(content) // 2, len(content) - 1} if content else {-1}
    for nth, place in enumerate(sorted(places)):
        changed = bytearray(content or b"\0")
        changed[place] ^= 1 << (nth * 3 + place) % 8
        (tmp_path / name).write_bytes(changed)
        report = verify.check_bundle(str(tmp_path))
        assert name in {problem.file for problem in report.problems}, (name, place)


def test_every_flipped_bit_of_the_manifest_and_its_envelope_fails(tmp_path: Path) -> None:
    files = bundle.assemble_bundle({"a": b"b"}, {}, KEY)
    write(files, tmp_path)
    for name in (MANIFEST, ENVELOPE):
        for place in range(0, len(files[name]), 7):
            changed = bytearray(files[name])
            changed[place] ^= 1 << place % 8
            (tmp_path / name).write_bytes(changed)
            problems = verify.check_bundle(str(tmp_path)).problems
            assert name in {problem.file for problem in problems}, (name, place)
        (tmp_path / name).write_bytes(files[name])


# --- mutants: the folder changed after it was signed -----------------------------------------------------


def edited(name: str, old: bytes, new: bytes) -> Callable[[Files], Files]:
    def edit(files: Files) -> Files:
        assert old in files[name]
        return {**files, name: files[name].replace(old, new, 1)}

    return edit


def without(name: str) -> Callable[[Files], Files]:
    return lambda files: {path: content for path, content in files.items() if path != name}


def added(name: str, content: bytes = b"x") -> Callable[[Files], Files]:
    return lambda files: {**files, name: content}


def swapped(one: str, other: str) -> Callable[[Files], Files]:
    return lambda files: {**files, one: files[other], other: files[one]}


def renamed(old: str, new: str) -> Callable[[Files], Files]:
    return lambda files: {new if path == old else path: content for path, content in files.items()}


def reindented(name: str) -> Callable[[Files], Files]:
    return lambda files: {**files, name: json.dumps(json.loads(files[name]), indent=1).encode()}


def signed_with(signer: Ed25519Signer) -> Callable[[Files], Files]:
    def sign(files: Files) -> Files:
        envelope = bundle.dsse(files[MANIFEST], bundle.PAYLOAD_TYPE, [signer])
        return {**files, ENVELOPE: envelope}

    return sign


def tail_cut(files: Files) -> Files:
    return {**files, LEAVES: b"\n".join(files[LEAVES].split(b"\n")[:-2]) + b"\n"}


def from_another_run(files: Files) -> Files:
    return {**files, LEAVES: witnessed_bundle()[LEAVES]}


def sign_off_of(
    manifest: bytes | None, role: str, name: str, signer: Ed25519Signer
) -> Callable[[Files], Files]:
    def add(files: Files) -> Files:
        envelope = bundle.sign_off(manifest or files[MANIFEST], role, "accept", signer)[1]
        return {**files, name: envelope}

    return add


def manifest_without(name: str) -> Callable[[Files], Files]:
    """A file dropped from the folder and from manifest.json, the envelope left as it was."""

    def drop(files: Files) -> Files:
        value = json.loads(files[MANIFEST])
        value["subject"] = [one for one in value["subject"] if one["name"] != name]
        value["predicate"]["file_count"] -= 1
        return {**without(name)(files), MANIFEST: encode(value)}

    return drop


AFTER = [
    ("a leaf edited", edited(LEAVES, b"wl_1", b"wl_9"), LEAVES, "digest"),
    ("the tail of the log cut", tail_cut, LEAVES, "count-leaves"),
    ("the log emptied", added(LEAVES, b""), LEAVES, "size"),
    ("leaves of another run", from_another_run, LEAVES, "count-leaves"),
    ("a file missing", without("report.html"), "report.html", "missing"),
    ("the end checkpoint missing", without(END), END, "missing-part"),
    ("the policy missing", without(POLICY), POLICY, "missing"),
    ("the whole log missing", lambda files: {n: c for n, c in files.items() if n[:6] != "audit/"},
     LEAVES, "missing"),
    ("the verifier missing", without("verify/verify.py"), "verify/verify.py", "missing"),
    ("the manifest missing", without(MANIFEST), MANIFEST, "missing-part"),
    ("the envelope missing", without(ENVELOPE), ENVELOPE, "missing-part"),
    ("an extra file", added("verdicts/extra.json"), "verdicts/extra.json", "extra"),
    ("a hidden file", added(".DS_Store"), ".DS_Store", "extra"),
    ("an unknown sign-off", added("signoff/ceo.dsse.json"), "signoff/ceo.dsse.json", "extra"),
    ("two files swapped", swapped("plan/plan.json", "plan/scope.json"), "plan/plan.json", "swapped"),
    ("a file renamed", renamed("plan/plan.json", "plan/plan2.json"), "plan/plan.json", "missing"),
    ("a file in other case", renamed("report.html", "Report.html"), "report.html", "case"),
    ("a byte appended", edited("report.html", b"\n", b"\n\n"), "report.html", "size"),
    ("start and end swapped", swapped(START, END), START, "swapped"),
    ("white space in the envelope", reindented(ENVELOPE), ENVELOPE, "not-canonical"),
    ("a newline after the envelope", edited(ENVELOPE, b"]}", b"]}\n"),
     ENVELOPE, "not-canonical"),
    ("white space in the manifest", reindented(MANIFEST), MANIFEST, "manifest-differs"),
    ("a duplicate key in the envelope", edited(ENVELOPE, b'{"payload"', b'{"payload":"","payload"'),
     ENVELOPE, "malformed"),
    ("a field more in the envelope", edited(ENVELOPE, b'{"payload"', b'{"a":1,"payload"'),
     ENVELOPE, "malformed"),
    ("another payload type", edited(ENVELOPE, b"in-toto+json", b"in-toto+JSON"),
     ENVELOPE, "type"),
    ("an envelope of an unnamed key", signed_with(NEXT_KEY), ENVELOPE, "keyid"),
    ("a file dropped from the manifest too", manifest_without("usage/report.json"),
     MANIFEST, "manifest-differs"),
    ("a usage row edited", edited(SEGMENTS, b'"quantity":400', b'"quantity":401'),
     SEGMENTS, "conservation"),
    ("a sign-off of another manifest", sign_off_of(b"{}", "security", SECURITY_FILE, SECURITY),
     SECURITY_FILE, "other-manifest"),
    ("a sign-off in another role's name", sign_off_of(None, "finance", SECURITY_FILE, SECURITY),
     SECURITY_FILE, "role"),
    ("a sign-off with the exporter's key", sign_off_of(None, "security", SECURITY_FILE, KEY),
     SECURITY_FILE, "signer-is-exporter"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("mutate", "file", "code"), [row[1:] for row in AFTER], ids=[row[0] for row in AFTER]
)
def test_a_folder_changed_after_signing_fails_by_name(
    mutate: Callable[[Files], Files], file: str, code: str, tmp_path: Path
) -> None:
    assert (file, code) in found(mutate(WHOLE), tmp_path, FINGERPRINT)


def test_a_sign_off_with_other_white_space_fails(tmp_path: Path) -> None:
    path, envelope = bundle.sign_off(WHOLE[MANIFEST], "security", "accept", SECURITY)
    files = {**WHOLE, path: json.dumps(json.loads(envelope)).encode()}
    assert found(files, tmp_path) == {(path, "not-canonical")}


def test_the_corpus_is_as_large_as_it_is_meant_to_be() -> None:
    assert len(AFTER) >= 30

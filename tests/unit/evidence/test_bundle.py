"""Bundles as files: manifest, envelope, sign-offs, and the way they are written."""

from __future__ import annotations

import base64
import json
from hashlib import sha256

import pytest

from steelyard.evidence import bundle
from steelyard.evidence.canonical import decode_strict
from steelyard.evidence.keys import fingerprint, verify_signature
from steelyard.model.errors import SteelyardError
from tests.unit.evidence.samples import KEY, NEXT_KEY


def test_the_manifest_is_an_in_toto_statement_over_all_files_sorted_by_name() -> None:
    made = decode_strict(bundle.manifest({"b": b"B", "a/c": ("ab" * 32, 7)}, {"plan": 1}))
    assert made == {
        "_type": "https://in-toto.io/Statement/v1",
        "predicateType": "https://steelyard.dev/poc-evidence/v1",
        "subject": [
            {"name": "a/c", "digest": {"sha256": "ab" * 32}, "annotations": {"size": 7}},
            {"name": "b", "digest": {"sha256": sha256(b"B").hexdigest()}, "annotations": {"size": 1}},
        ],
        "predicate": {"plan": 1, "file_count": 2},
    }


@pytest.mark.parametrize(
    "path",
    [
        *("", "/a", "a/", "a//b", "..", "a/../b", ".", ".a", "a.", "a b", "a\\b", "ä", "a\n", "a:b", "-a"),
        *("manifest.json", "manifest.dsse.json", "signoff/platform.dsse.json", "signoff"),
    ],
)
def test_paths_that_a_file_system_would_change_or_hide_are_refused(path: str) -> None:
    with pytest.raises(SteelyardError, match="bundle-path"):
        bundle.manifest({path: b""}, {})


def test_paths_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(SteelyardError, match="bundle-path-collision"):
        bundle.manifest({"a/Report": b"", "a/report": b""}, {})


def test_pre_authentication_encoding_is_that_of_the_dsse_specification() -> None:
    # The example of the specification: type http://example.com/HelloWorld, body "hello world".
    expected = b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    assert bundle.pae("http://example.com/HelloWorld", b"hello world") == expected


def test_an_envelope_is_canonical_and_carries_each_signature() -> None:
    envelope = decode_strict(bundle.dsse(b"payload", "text/plain", [KEY, NEXT_KEY]))
    assert base64.b64decode(envelope["payload"]) == b"payload"
    keyids = [signature["keyid"] for signature in envelope["signatures"]]
    assert keyids == sorted(fingerprint(key.public_key) for key in (KEY, NEXT_KEY))
    publics = {fingerprint(key.public_key): key.public_key for key in (KEY, NEXT_KEY)}
    for signature in envelope["signatures"]:
        raw = base64.b64decode(signature["sig"])
        assert verify_signature(publics[signature["keyid"]], bundle.pae("text/plain", b"payload"), raw)


def test_an_assembled_bundle_brings_its_verifier_and_names_its_signer() -> None:
    files = bundle.assemble_bundle({"report.html": b"x"}, {"adapter": "unified"}, KEY)
    assert set(files) == {
        *("report.html", "manifest.json", "manifest.dsse.json", "verify/verify.py", "verify/VERIFY.md"),
    }
    value = json.loads(files["manifest.json"])
    assert [subject["name"] for subject in value["subject"]] == [
        *("report.html", "verify/VERIFY.md", "verify/verify.py"),
    ]
    assert value["predicate"]["signers"][0]["fingerprint"] == fingerprint(KEY.public_key)


def test_large_files_go_in_by_digest_and_size_with_the_same_result() -> None:
    files: dict[str, bundle.FileContent] = {"report.html": b"x", **bundle.verifier_files()}
    described: dict[str, bundle.FileContent] = {
        path: (sha256(content).hexdigest(), len(content))
        for path, content in files.items()
        if isinstance(content, bytes)
    }
    assert bundle.seal(files, {}, KEY) == bundle.seal(described, {}, KEY)


def test_the_instructions_are_in_both_languages_and_name_every_step() -> None:
    text = bundle.verifier_files()[bundle.INSTRUCTIONS].decode()
    english, chinese = text.split("# 如何校验本证据包")
    for section in (english, chinese):
        for word in ("sha256sum", "0x00", "0x01", "--key", "--anchor", "self-attested", "key not known"):
            assert word in section


def test_a_sign_off_of_an_unknown_role_or_decision_is_refused() -> None:
    with pytest.raises(SteelyardError, match="sign-off-role"):
        bundle.sign_off(b"{}", "ceo", "accept", KEY)
    with pytest.raises(SteelyardError, match="sign-off-decision"):
        bundle.sign_off(b"{}", "security", "pass", KEY)

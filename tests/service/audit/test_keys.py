"""The log's key: made once, readable by nobody else, registered in the log, changed by a leaf of both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.evidence.keys import Ed25519Signer, fingerprint, verify_rotation
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.services.audit import checkpoint
from steelyard.services.keys import KEY_FILE, NEXT_FILE, open_log_key, replace_lost_key, rotate_log_key
from steelyard.store.audit import log_keys
from steelyard.store.leaves import bodies, log_size
from steelyard.store.store import Store


def actions(store: Store) -> list[str]:
    with store.read() as view:
        return [json.loads(body)["action"] for body in bodies(view, 0, log_size(view))]


def test_the_first_start_makes_a_key_that_only_its_owner_reads_and_registers_it(
    store: Store, tmp_path: Path
) -> None:
    signer = open_log_key(store, tmp_path)
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o777 == 0o600
    with store.read() as view:
        (row,) = log_keys(view)
    assert (row.fingerprint, row.retired_at) == (fingerprint(signer.public_key), None)
    assert actions(store) == ["log.key-registered"]


def test_a_later_start_takes_the_same_key_and_writes_nothing(store: Store, tmp_path: Path) -> None:
    first = open_log_key(store, tmp_path)
    assert open_log_key(store, tmp_path).public_key == first.public_key
    assert len(actions(store)) == 1


def test_a_server_without_the_key_takes_part_but_does_not_sign(store: Store, tmp_path: Path) -> None:
    open_log_key(store, tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    signer = open_log_key(store, other)
    assert signer.able is False
    assert checkpoint(store, signer, "test") is None
    assert list(other.iterdir()) == []
    with pytest.raises(UnavailableError):
        signer.sign(b"x")


def test_another_key_than_the_registered_one_is_refused(store: Store, tmp_path: Path) -> None:
    open_log_key(store, tmp_path)
    (tmp_path / KEY_FILE).write_text(Ed25519Signer.generate("x").private_text())
    with pytest.raises(InvalidError, match="log-key-unknown"):
        open_log_key(store, tmp_path)


def test_a_key_that_others_can_read_is_refused(store: Store, tmp_path: Path) -> None:
    open_log_key(store, tmp_path)
    (tmp_path / KEY_FILE).chmod(0o640)
    with pytest.raises(InvalidError, match="log-key-exposed"):
        open_log_key(store, tmp_path)


def test_a_rotation_is_signed_with_both_keys_and_the_new_one_signs_from_then_on(
    store: Store, tmp_path: Path
) -> None:
    signer = open_log_key(store, tmp_path)
    before = fingerprint(signer.public_key)
    after = rotate_log_key(store, tmp_path, signer)
    with store.read() as view:
        leaf = json.loads(list(bodies(view, 0, log_size(view)))[-1])
        old, new = log_keys(view)
    assert verify_rotation(leaf["detail"]["rotation"])
    assert (old.fingerprint, new.fingerprint) == (before, after)
    assert old.retired_at is not None
    assert new.retired_at is None
    assert fingerprint(signer.public_key) == after
    assert fingerprint(open_log_key(store, tmp_path).public_key) == after


def test_a_crash_between_the_leaf_and_the_files_is_mended_at_the_next_start(
    store: Store, tmp_path: Path
) -> None:
    signer = open_log_key(store, tmp_path)
    old_file = (tmp_path / KEY_FILE).read_text()
    after = rotate_log_key(store, tmp_path, signer)
    (tmp_path / KEY_FILE).rename(tmp_path / NEXT_FILE)
    (tmp_path / KEY_FILE).write_text(old_file)
    (tmp_path / KEY_FILE).chmod(0o600)
    assert fingerprint(open_log_key(store, tmp_path).public_key) == after
    assert not (tmp_path / NEXT_FILE).exists()


def test_a_key_of_a_rotation_that_never_was_is_thrown_away(store: Store, tmp_path: Path) -> None:
    signer = open_log_key(store, tmp_path)
    (tmp_path / NEXT_FILE).write_text(Ed25519Signer.generate("x").private_text())
    (tmp_path / NEXT_FILE).chmod(0o600)
    assert open_log_key(store, tmp_path).public_key == signer.public_key
    assert not (tmp_path / NEXT_FILE).exists()


def test_a_lost_key_is_given_up_by_a_leaf_that_names_its_successor_and_claims_no_more(
    store: Store, tmp_path: Path
) -> None:
    lost = fingerprint(open_log_key(store, tmp_path).public_key)
    (tmp_path / KEY_FILE).unlink()
    found = replace_lost_key(store, tmp_path)
    with store.read() as view:
        leaf = json.loads(list(bodies(view, 0, log_size(view)))[-1])
        old, new = log_keys(view)
    assert (leaf["action"], leaf["reason_code"]) == ("log.key-revoked", "key-lost")
    assert leaf["detail"]["fingerprint"] == old.fingerprint == lost
    assert leaf["detail"]["successor"]["fingerprint"] == new.fingerprint == fingerprint(found.public_key)
    assert leaf["detail"]["signed_to"] == 0
    assert (old.retired_at is None, new.retired_at) == (False, None)
    assert open_log_key(store, tmp_path).public_key == found.public_key


def test_a_crash_after_the_leaf_of_a_lost_key_is_mended_at_the_next_start(
    store: Store, tmp_path: Path
) -> None:
    open_log_key(store, tmp_path)
    (tmp_path / KEY_FILE).unlink()
    found = replace_lost_key(store, tmp_path)
    (tmp_path / KEY_FILE).rename(tmp_path / NEXT_FILE)
    assert open_log_key(store, tmp_path).public_key == found.public_key


def test_nothing_is_replaced_where_no_key_was_yet(store: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="log-key-none"):
        replace_lost_key(store, tmp_path)
    assert not (tmp_path / KEY_FILE).exists()

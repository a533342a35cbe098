"""What operators do on the data folder of a stopped server."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steelyard.bootstrap import build, reset_user_password
from steelyard.data_folder import locked
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.identity.passwords import verify_password
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from steelyard.services.setup import first_start
from steelyard.store import tables as t
from steelyard.store.accounts import account_by_name
from steelyard.store.database import sqlite_url
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.upkeep import rotate_key


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a server that ran and stopped."""
    house = build(tmp_path, sqlite_url(tmp_path))
    first_start(house.store)
    house.close()
    return tmp_path


def hashed(folder: Path) -> tuple[str, bool]:
    store = Store(sqlite_url(folder), lambda: 1)
    try:
        with store.read() as view:
            account = account_by_name(view, "admin")
    finally:
        store.close()
    assert account is not None
    return str(account.password_hash), bool(account.must_change)


def test_a_lost_password_is_replaced_by_a_one_time_one(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reset_user_password("admin", folder, "en") == 0
    found = re.search(r"password of admin is (\S+)\.", capsys.readouterr().out)
    assert found is not None
    password, must_change = hashed(folder)
    assert verify_password(password, found[1])
    assert must_change


def test_the_password_of_nobody_is_not_found(folder: Path) -> None:
    with pytest.raises(NotFoundError):
        reset_user_password("nobody", folder, "en")


def test_the_log_s_key_is_replaced(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = (folder / "log.key").read_bytes()
    assert rotate_key(folder, None, False, "en") == 0
    assert re.search(r"fingerprint: [0-9a-f]{64}$", capsys.readouterr().out.strip())
    assert (folder / "log.key").read_bytes() != before


def test_a_lost_log_key_is_replaced_and_people_are_told_what_that_means(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "log.key").unlink()
    assert rotate_key(folder, None, True, "en") == 0
    said = capsys.readouterr().out
    assert re.search(r"fingerprint: [0-9a-f]{64}\n", said)
    assert "give this fingerprint to everybody" in said
    house = build(folder, sqlite_url(folder))
    try:
        assert house.services.signer is not None
        assert house.services.signer.able
    finally:
        house.close()


def test_a_key_that_is_there_is_not_lost(folder: Path) -> None:
    with pytest.raises(ConflictError, match="log-key-not-lost"):
        rotate_key(folder, None, True, "en")


def test_the_key_of_a_shared_database_is_not_replaced_while_a_server_has_the_lease(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other")
    store = Store(sqlite_url(folder), lambda: 1)
    store.start()
    unit = Unit(actor_of(SYSTEM))
    unit.upsert(t.lease, ("name",), name="control", holder="sv_1", epoch=9, expires_at=2**50 * 2)
    store.writer.write(unit)
    store.close()
    with pytest.raises(UnavailableError, match="database-in-use"):
        rotate_key(other, sqlite_url(folder), True, "en")


def test_nothing_is_done_while_a_server_has_the_folder(folder: Path) -> None:
    before = hashed(folder)
    with locked(folder), pytest.raises(UnavailableError, match="data-folder-in-use"):
        reset_user_password("admin", folder, "en")
    assert hashed(folder) == before


def test_a_folder_without_a_database_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(InvalidError, match="data-folder-empty"):
            reset_user_password("admin", folder, "en")
    assert list(tmp_path.iterdir()) == []

"""A copy of an installation restored into either database: nothing is lost, the log says what was done."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import select, text

from steelyard import bootstrap
from steelyard.control.lease import Lease
from steelyard.evidence.checkpoint import parse_checkpoint, parse_note
from steelyard.evidence.leaf import ACTION_RESTORED, ActorRef, LeafDraft
from steelyard.evidence.merkle import consistency_proof, verify_consistency
from steelyard.model.errors import ConflictError, InvalidError, UnavailableError
from steelyard.model.units import HOUR
from steelyard.services import restore as restores
from steelyard.services.audit import checkpoint
from steelyard.services.backup import write_backup
from steelyard.services.backup_file import open_backup, verify
from steelyard.services.checks import check_everything
from steelyard.services.keys import KEY_FILE, open_log_key
from steelyard.services.restore import restore
from steelyard.services.sessions import Principals, create_token
from steelyard.services.setup import first_start
from steelyard.store import tables as t
from steelyard.store.database import sqlite_url, writing
from steelyard.store.leaves import leaf_body, log_row, tile_reader
from steelyard.store.store import Store
from steelyard.store.unit import Unit
from steelyard.upkeep import restore_backup
from tests.support.house import ADMIN, START, House, VirtualClock

TABLES = ("leaf", "tile", "workload", "attempt", "member", "holding_segment", "refusal", "cycle", "declared")


@pytest.fixture(params=["sqlite", "postgresql"])
def house(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[House]:
    """A control plane with work that ended, work that runs, work that waits and a refusal."""
    folder = tmp_path / "data"
    folder.mkdir()
    on_sqlite = request.param == "sqlite"
    url = sqlite_url(folder) if on_sqlite else request.getfixturevalue("postgresql_database")
    made = House(url, folder)
    open_log_key(made.store, folder)
    made.submit("ended", expect={"run": "20ms"})
    made.run_dry()
    for name in ("runs", "runs-too", "waits"):
        made.submit(name, expect={"run": "600s"}, requests={"gpu": 4, "cpu": "1", "memory": "1Gi"})
    made.tick(20)
    yield made
    made.close()


def url_of(house: House) -> str:
    """The database's address, with everything that it takes to open it."""
    return house.store.engine.url.render_as_string(hide_password=False)


def other_database(house: House, folder: Path, request: pytest.FixtureRequest) -> str:
    """An empty database of the other kind."""
    folder.mkdir()
    return request.getfixturevalue("postgresql_database") if not house.store.shared else sqlite_url(folder)


def put_back(source: Path, folder: Path, database: str, **options: Any) -> None:
    with open_backup(source) as archive:
        restore(archive, folder, database, wall=VirtualClock(START + HOUR), **options)


@pytest.mark.requirement("K8")
def test_a_copy_goes_into_the_other_kind_of_database_and_its_log_goes_on(
    house: House, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file, folder = tmp_path / "copy.zip", tmp_path / "restored"
    made = write_backup(file, house.folder, url_of(house))
    assert os.stat(file).st_mode & 0o777 == 0o600
    with house.store.read() as view:
        counts = {name: view.execute(text(f"SELECT count(*) FROM {name}")).scalar() for name in TABLES}
        old_size, old = log_row(view)
    house.submit("later")  # is not in the copy
    database = other_database(house, folder, request)
    put_back(file, folder, database)
    store = Store(database, house.clock)
    try:
        with store.read() as view:
            assert {
                name: view.execute(text(f"SELECT count(*) FROM {name}")).scalar() for name in TABLES
            } == {**counts, "leaf": old_size + 1}
            size, frontier = log_row(view)
            said = msgspec.json.decode(leaf_body(view, old_size) or b"")
            proof = consistency_proof(old_size, size, tile_reader(view))
        assert (said["action"], said["detail"]["old_head"]) == (
            ACTION_RESTORED, {"size": old_size, "root": old.root().hex()},
        )  # fmt: skip
        assert said["detail"]["taken_at"] == made.taken_at
        assert said["origin"]["client"]["h"]
        assert (made.log.size, made.log.root) == (old_size, old.root().hex())
        assert verify_consistency(old_size, size, proof, old.root(), frontier.root())
        assert [check for check in check_everything(store) if not check.ok] == []
    finally:
        store.close()


def test_work_that_a_simulated_cluster_remembers_goes_on_after_a_restore(
    house: House, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    file, folder = tmp_path / "copy.zip", tmp_path / "restored"
    (house.folder / "simulated").mkdir()
    for name in ("sim", "other"):
        shutil.copy(house.folder / f"{name}.jsonl", house.folder / "simulated" / f"{name}.jsonl")
    write_backup(file, house.folder, url_of(house))
    database = other_database(house, folder, request)
    put_back(file, folder, database)
    again = House(database, folder / "simulated", "", clock=VirtualClock(house.clock.at), holder="sv_again")
    try:
        runs = next(a for a in again.live.values() if a.phase == "running")
        again.clock.advance(600_000_000)
        again.run_until(lambda: runs.workload_id not in again.live)
    finally:
        again.close()


def test_the_log_key_is_in_the_copy_only_when_asked_for(house: House, tmp_path: Path) -> None:
    write_backup(tmp_path / "without.zip", house.folder, url_of(house))
    write_backup(tmp_path / "with.zip", house.folder, url_of(house), with_key=True)
    private = (house.folder / KEY_FILE).read_bytes().strip()
    for name, expected in (("without.zip", False), ("with.zip", True)):
        with open_backup(tmp_path / name) as archive:
            assert verify(archive).manifest.has_key is expected
            inside = any(private in archive.read(entry) for entry in archive.namelist())
        assert inside is expected
    folder = tmp_path / "restored"
    folder.mkdir()
    put_back(tmp_path / "with.zip", folder, sqlite_url(folder))
    assert (folder / KEY_FILE).read_bytes().strip() == private
    assert os.stat(folder / KEY_FILE).st_mode & 0o777 == 0o600


def test_a_copy_is_signed_where_the_key_is_and_says_so_where_it_is_not(house: House, tmp_path: Path) -> None:
    signer = open_log_key(house.store, house.folder)
    note = checkpoint(house.store, signer, "test")
    write_backup(tmp_path / "signed.zip", house.folder, url_of(house))
    write_backup(tmp_path / "unsigned.zip", tmp_path / "elsewhere", url_of(house))
    with open_backup(tmp_path / "signed.zip") as archive:
        found = verify(archive)
        assert found.signer is not None
        head = parse_checkpoint(parse_note(found.manifest.log.note or "").body)
        assert (head.size, head.root.hex()) == (found.manifest.log.size, found.manifest.log.root)
        verify(archive, found.signer)
        with pytest.raises(InvalidError, match="backup-unsigned"):
            verify(archive, "0" * 64)
    with open_backup(tmp_path / "unsigned.zip") as archive:
        assert verify(archive).signer is None
        assert verify(archive).manifest.log.note == note


def _changed(source: Path, target: Path, name: str, change: Any) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            body = old.read(entry)
            new.writestr(entry, change(body) if entry == name else body)


@pytest.mark.parametrize(
    ("name", "change", "code"),
    [
        ("rows/leaf.jsonl", lambda body: body.replace(b"W", b"X", 1), "backup-changed"),
        ("rows/declared.jsonl", lambda body: body + body, "backup-changed"),
        ("rows/leaf.jsonl", lambda body: body[: body.index(b"\n") + 1], "backup-changed"),
        ("manifest.json", lambda body: body.replace(b'"size":', b'"Size":'), "backup-malformed"),
        ("manifest.json", lambda body: body.replace(b"rows/leaf", b"rows/../l"), "backup-malformed"),
        ("manifest.json", lambda body: body.replace(b'"epoch":', b'"epoch":1'), "backup-signature"),
    ],
)
def test_a_changed_copy_is_found_and_nothing_of_it_is_restored(
    tmp_path: Path, name: str, change: Any, code: str
) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    open_log_key(house.store, tmp_path)
    house.close()
    write_backup(tmp_path / "copy.zip", tmp_path, sqlite_url(tmp_path))
    _changed(tmp_path / "copy.zip", tmp_path / "bad.zip", name, change)
    folder = tmp_path / "restored"
    folder.mkdir()
    with pytest.raises(InvalidError, match=code):
        put_back(tmp_path / "bad.zip", folder, sqlite_url(folder))
    assert list(folder.iterdir()) == []


def test_a_copy_is_restored_into_something_empty_only(house: House, tmp_path: Path) -> None:
    write_backup(tmp_path / "copy.zip", house.folder, url_of(house))
    with pytest.raises(ConflictError, match="restore-not-empty"):
        put_back(tmp_path / "copy.zip", tmp_path, url_of(house))
    with pytest.raises(InvalidError, match="backup-exists"):
        write_backup(tmp_path / "copy.zip", house.folder, url_of(house))
    assert [path.name for path in tmp_path.glob(".*part")] == []


def test_sessions_end_and_tokens_stay_unless_they_are_to_end(tmp_path: Path) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    first_start(house.store)
    admin = ADMIN.name
    kept = create_token(house.store, ADMIN, "kept")
    with writing(house.store.engine) as connection:
        connection.execute(
            t.credential.insert().values(
                id=7, user_id=connection.execute(select(t.user.c.id).where(t.user.c.name == admin)).scalar(),
                kind="session", name=None, digest="x", created_at=1, expires_at=None, revoked_at=None,
            )
        )  # fmt: skip
    house.close()
    write_backup(tmp_path / "copy.zip", tmp_path, sqlite_url(tmp_path))
    for end_tokens in (False, True):
        folder = tmp_path / f"restored-{end_tokens}"
        folder.mkdir()
        put_back(tmp_path / "copy.zip", folder, sqlite_url(folder), end_tokens=end_tokens)
        store = Store(sqlite_url(folder), house.clock)
        with store.read() as view:
            ended = {
                row.kind: row.revoked_at is not None for row in view.execute(select(t.credential)).all()
            }
        assert ended == {"session": True, "token": end_tokens}
        if not end_tokens:
            assert Principals(store).identify(kept.secret).principal.name == admin
        store.close()


def test_a_server_that_still_lives_on_the_database_is_fenced_out(
    tmp_path: Path, postgresql_database: str
) -> None:
    old = House(postgresql_database, tmp_path)
    old.submit("runs", expect={"run": "600s"})
    old.tick(20)
    epoch = old.store.writer.state.epoch
    write_backup(tmp_path / "copy.zip", tmp_path, postgresql_database)
    with writing(old.store.engine) as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    put_back(tmp_path / "copy.zip", tmp_path, postgresql_database)
    unit = Unit(ActorRef("control", "control"), fence=epoch)
    unit.leaf(LeafDraft("test.work", "log", "log"))
    with pytest.raises(ConflictError, match="lease-lost"):
        old.store.writer.write(unit)
    fresh = Store(postgresql_database, old.clock)
    fresh.start()
    taken = Lease(fresh, "sv_new").hold()
    assert taken is not None
    assert taken > epoch + 1
    fresh.close()
    old.close()


def test_a_restore_that_was_broken_off_is_not_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    house = House(sqlite_url(tmp_path), tmp_path)
    house.close()
    write_backup(tmp_path / "copy.zip", tmp_path, sqlite_url(tmp_path))
    folder = tmp_path / "restored"
    folder.mkdir()

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(restores, "_unit", fail)
    with pytest.raises(KeyboardInterrupt):
        put_back(tmp_path / "copy.zip", folder, sqlite_url(folder))
    with pytest.raises(UnavailableError, match="restore-unfinished"):
        bootstrap.build(folder, sqlite_url(folder))


@pytest.mark.parametrize("with_key", [True, False])
def test_a_restore_says_in_sentences_whether_the_log_that_goes_on_is_signed(
    house: House, tmp_path: Path, with_key: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "copy.zip"
    write_backup(file, house.folder, url_of(house), with_key=with_key)
    assert restore_backup(file, tmp_path / "restored", None, None, False, "en") == 0
    said = capsys.readouterr().out
    assert ("is signed." in said, "is not signed yet" in said) == (with_key, not with_key)
    assert "checkpoint-not-signed" not in said

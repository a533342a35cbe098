"""A backup put into an empty database, of either kind, and said so in its log.

First everything in the file is checked, then all rows are loaded in one transaction, brought to this
program's schema, and the restored log goes on with a leaf that names the head it was copied at. The log's
epoch is raised with it: a server that still lives on the same database can't write in the old one's name.

Sessions end, since their secrets may be older than a logout; tokens stay unless they are to end, too.
"""

from __future__ import annotations

import getpass
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from zipfile import ZipFile

from steelyard.evidence.leaf import Origin, restored_draft
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.identity.tokens import CredentialKind
from steelyard.model.errors import ConflictError, InvalidError
from steelyard.services.audit import checkpoint
from steelyard.services.backup import SIMULATED
from steelyard.services.backup_file import KEY_PATH, Manifest, lines, table_path, verify
from steelyard.services.keys import KEY_FILE, LogSigner, held_key, put_key
from steelyard.store import archive as rows
from steelyard.store import tables as t
from steelyard.store.audit import log_frontier
from steelyard.store.clock import SteadyClock, wall_clock
from steelyard.store.installation import read_lease
from steelyard.store.migrate import upgrade_to
from steelyard.store.store import Store
from steelyard.store.unit import Unit

_LEASE = "control"
_FILES = "files/"


def restore(
    archive: ZipFile,
    folder: Path,
    database: str,
    *,
    key: str | None = None,
    end_tokens: bool = False,
    wall: Callable[[], int] = wall_clock,
) -> tuple[Manifest, bool]:
    """Put the backup into `database`, which has to be empty, and its files into the locked `folder`. What it
    was, and whether the log that goes on could be signed: only where the folder has the log's key.

    Raises InvalidError (see `backup_file.verify`), ConflictError `restore-not-empty` with nothing changed.
    """
    manifest = verify(archive, key).manifest
    if manifest.has_key and (folder / KEY_FILE).exists():
        raise ConflictError("restore-not-empty", target=str(folder / KEY_FILE))
    _load(archive, manifest, database)
    _put_files(archive, manifest, folder)
    clock = SteadyClock(wall)
    store = Store(database, clock, wall=clock.wall)
    try:
        clock.not_before(store.writer.last_ts)
        store.start()
        store.writer.write(_unit(store, manifest, end_tokens))
        with store.read() as view:
            signer = held_key(view, store.install_id, folder)
        if signer is not None:
            checkpoint(store, LogSigner(store.install_id, signer), "restored")
    finally:
        store.close()
    return manifest, signer is not None


def _load(archive: ZipFile, manifest: Manifest, database: str) -> None:
    """All rows, in one transaction, at the schema that they were copied from."""
    with rows.filling(database) as connection:
        if not rows.is_empty(connection):
            raise ConflictError("restore-not-empty", target=rows.shown_address(connection))
        upgrade_to(connection, manifest.revision)
        tables = rows.all_tables(connection)
        for name, table in tables.items():
            entry = manifest.table(name)
            rows.load(connection, table, entry.columns or (), lines(archive, table_path(name)))
        origin, frontier = log_frontier(connection)
        if (origin, frontier.size, frontier.root().hex()) != (
            manifest.install_id, manifest.log.size, manifest.log.root,
        ):  # fmt: skip
            raise InvalidError("backup-log-differs", seq=frontier.size)
        rows.mark_unfinished(connection)


def _put_files(archive: ZipFile, manifest: Manifest, folder: Path) -> None:
    """What is there already is newer than the copy, and stays."""
    for entry in manifest.files:
        if entry.path == KEY_PATH:
            put_key(folder, manifest.install_id, archive.read(entry.path).decode("ascii", "replace"))
        elif entry.path.startswith(f"{_FILES}{SIMULATED}/"):
            path = folder / entry.path.removeprefix(_FILES)
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if path.exists():
                continue
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(path, flags, 0o600), "wb") as out:
                out.writelines(lines(archive, entry.path))


def _unit(store: Store, manifest: Manifest, end_tokens: bool) -> Unit:
    """Leaf, epoch, lease, ended credentials."""
    now = store.now()
    kinds = set(CredentialKind) if end_tokens else {CredentialKind.SESSION}
    with store.read() as view:
        lease = read_lease(view, _LEASE)
        ending = rows.open_sessions(view, [kind.value for kind in kinds], now)
    before = store.writer.state
    epoch = max(before.epoch, 0 if lease is None else lease.epoch) + 1
    unit = Unit(actor_of(SYSTEM), new_epoch=epoch)
    if lease is not None:
        where = {"name": _LEASE, "epoch": lease.epoch}
        unit.update(t.lease, where, holder=lease.holder, epoch=epoch, expires_at=0)
    for number in ending:
        unit.update(t.credential, {"id": number}, null=("revoked_at",), revoked_at=now)
    unit.delete(t.setting, name=rows.UNFINISHED)
    unit.upsert(t.setting, ("name",), name=rows.RESTORED_AT, value=str(now))
    draft = restored_draft(manifest.log.size, bytes.fromhex(manifest.log.root))
    detail = {
        "taken_at": manifest.taken_at,
        "from_version": manifest.version,
        "epoch": epoch,
        "credentials_ended": len(ending),
    }
    origin = Origin(client=store.writer.secrets.conceal(_operator()))
    unit.leaf(replace(draft, rule_version=epoch, origin=origin, extra={**(draft.extra or {}), **detail}))
    return unit


def _operator() -> str:
    """Who runs this program, as the machine knows them."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name}@{platform.node()}"

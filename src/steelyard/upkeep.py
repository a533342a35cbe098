"""Commands of whoever looks after an installation: backup, restore, what an upgrade would do.

Each works on a data folder or a database address, without the server's API.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from steelyard.bootstrap import offline
from steelyard.data_folder import HOME_FILE, locked
from steelyard.evidence.keys import fingerprint
from steelyard.locale import text
from steelyard.model.errors import ConflictError, InvalidError
from steelyard.services.audit import checkpoint
from steelyard.services.backup import write_backup
from steelyard.services.backup_file import Manifest, open_backup, verify
from steelyard.services.keys import open_log_key, replace_lost_key, rotate_log_key
from steelyard.services.restore import restore
from steelyard.store.archive import filling, view_of
from steelyard.store.database import SQLITE_NAME, sqlite_url
from steelyard.store.migrate import pending, upgrade_to


def backup(target: Path, data: Path, database: str | None, with_key: bool, lang: str) -> int:
    """Copy a running installation into a file."""
    manifest = write_backup(target, data, database or _own(data), with_key=with_key)
    print(text("upkeep.backup-written", {"path": str(target), **_told(manifest)}, lang))
    print(text("upkeep.backup-has-key" if with_key else "upkeep.backup-without-key", {}, lang), flush=True)
    return 0


def verify_backup(source: Path, key: str | None, lang: str) -> int:
    """Check a file, without a database and without a network."""
    with open_backup(source) as archive:
        found = verify(archive, key)
    print(text("upkeep.backup-sound", {"path": str(source), **_told(found.manifest)}, lang))
    if found.signer is None:
        print(text("upkeep.backup-not-signed", {}, lang))
    else:
        print(text("upkeep.backup-signed", {"fingerprint": found.signer}, lang))
    return 0


def restore_backup(
    source: Path, data: Path, database: str | None, key: str | None, end_tokens: bool, lang: str
) -> int:
    """Put a file into an empty folder or database."""
    with open_backup(source) as archive, locked(data) as folder, _taken_back(folder, database):
        url = database or sqlite_url(folder)
        manifest, signed = restore(archive, folder, url, key=key, end_tokens=end_tokens)
        _remember_home(folder, manifest)
    print(text("upkeep.restored", {"folder": str(data), **_told(manifest)}, lang))
    print(text("upkeep.restored-signed" if signed else "upkeep.restored-not-signed", {}, lang), flush=True)
    return 0


def upgrade(data: Path, database: str | None, check: bool, lang: str) -> int:
    """Bring a database to this program's schema, or (`check`) say what is missing; 1 where something is."""
    url = database or _own(data)
    with view_of(url) as view:
        missing = pending(view)
    if not missing:
        print(text("upkeep.upgrade-none", {}, lang))
        return 0
    if check:
        print(text("upkeep.upgrade-needed", {"count": len(missing), "revisions": ", ".join(missing)}, lang))
        return 1
    with contextlib.nullcontext() if database is not None else locked(data), filling(url) as connection:
        upgrade_to(connection, missing[-1])
    print(text("upkeep.upgrade-done", {"count": len(missing), "revisions": ", ".join(missing)}, lang))
    return 0


def rotate_key(data: Path, database: str | None, lost: bool, lang: str) -> int:
    """A new key signs the log from here on, starting with a checkpoint. `lost`: no old one can agree."""
    with offline(data, database) as (folder, store):
        if lost:
            signer = replace_lost_key(store, folder)
        else:
            signer = open_log_key(store, folder)
            rotate_log_key(store, folder, signer)
        checkpoint(store, signer, "key-lost" if lost else "key-rotated")
        found = fingerprint(signer.public_key)
    print(text("log-key-replaced" if lost else "log-key-rotated", {"fingerprint": found}, lang), flush=True)
    return 0


def _own(data: Path) -> str:
    """The embedded database of a folder. Raises InvalidError where there is none."""
    if not (data / SQLITE_NAME).is_file():
        raise InvalidError("data-folder-empty", path=str(data))
    return sqlite_url(data)


def _told(manifest: Manifest) -> dict[str, str | int]:
    return {
        "install": manifest.install_id,
        "at": manifest.taken_at,
        "leaves": manifest.log.size,
        "root": manifest.log.root,
        "version": manifest.version,
    }


@contextlib.contextmanager
def _taken_back(folder: Path, database: str | None) -> Iterator[None]:
    """A restore that fails leaves no database file behind; one that is there is not touched."""
    if database is None and (folder / SQLITE_NAME).exists():
        raise ConflictError("restore-not-empty", target=str(folder / SQLITE_NAME))
    with contextlib.ExitStack() as unfinished:
        for suffix in ("", "-wal", "-shm") if database is None else ():
            unfinished.callback((folder / f"{SQLITE_NAME}{suffix}").unlink, missing_ok=True)
        yield
        unfinished.pop_all()


def _remember_home(folder: Path, manifest: Manifest) -> None:
    """Whose copy this is: `up` refuses it while the original or its processes live on this machine."""
    if Path(manifest.folder).is_absolute() and Path(manifest.folder) != folder.resolve():
        (folder / HOME_FILE).write_text(f"{manifest.folder}\n", "utf-8")

"""A copy of an installation while it runs: one consistent view of its database, written to one file.

Nothing is locked and nothing is written but the file. What the server commits meanwhile is not in it; what
engines remember is copied after the view was opened, so that it is never older than the rows.

The file holds password and token digests and everything that users declared, so only its owner may read it
(0600). The log's private key is left out unless it is asked for.
"""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import msgspec

from steelyard import __version__
from steelyard.evidence.bundle import dsse
from steelyard.evidence.canonical import encode_trusted
from steelyard.evidence.checkpoint import Checkpoint, sign_note
from steelyard.evidence.keys import Ed25519Signer
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.services.backup_file import (
    ENVELOPE,
    FORMAT,
    KEY_PATH,
    MANIFEST,
    PAYLOAD_TYPE,
    Entry,
    LogHead,
    Manifest,
    table_path,
)
from steelyard.services.keys import KEY_FILE, held_key
from steelyard.store import archive as rows
from steelyard.store.audit import log_frontier
from steelyard.store.clock import wall_clock
from steelyard.store.database import View
from steelyard.store.installation import log_epoch
from steelyard.store.leaves import newest_checkpoint
from steelyard.store.migrate import pending

SIMULATED = "simulated"
_PIECE = 1 << 20


def write_backup(target: Path, folder: Path, database: str, *, with_key: bool = False) -> Manifest:
    """Write the copy to `target`, which must not be there yet; whole or not at all, mode 0600.

    Raises InvalidError `backup-exists`, `backup-not-writable`; UnavailableError for the database.
    """
    if os.path.lexists(target):
        raise InvalidError("backup-exists", path=str(target))
    part = target.with_name(f".{target.name}.part")
    try:
        part.unlink(missing_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with os.fdopen(os.open(part, flags, 0o600), "w+b") as out:
            with rows.view_of(database) as view, _zip(out) as archive:
                manifest = _write(archive, view, folder, with_key)
            out.flush()
            os.fsync(out.fileno())
        os.link(part, target)  # never over a file that came meanwhile
    except FileExistsError:
        raise InvalidError("backup-exists", path=str(target)) from None
    except OSError as error:
        raise InvalidError("backup-not-writable", path=str(target), cause=error.strerror or "") from None
    finally:
        part.unlink(missing_ok=True)
    return manifest


def _zip(out: BinaryIO) -> zipfile.ZipFile:
    """Leaves are alike: a higher level takes time and gains little."""
    return zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1)


def _write(archive: zipfile.ZipFile, view: View, folder: Path, with_key: bool) -> Manifest:
    pending(view)  # raises for a database of a newer release
    revision = rows.revision(view)
    if revision is None:
        raise UnavailableError("database-empty")
    origin, frontier = log_frontier(view)  # the first read: from here on the view stands
    taken_at = wall_clock()
    signer = held_key(view, origin, folder)
    if with_key and signer is None:
        raise InvalidError("backup-no-key", path=str(folder / KEY_FILE))
    head = _head(view, Checkpoint(origin, frontier.size, frontier.root()), signer)
    entries = [
        _file(archive, table_path(name), rows.dump(view, table), rows.columns_of(table))
        for name, table in rows.all_tables(view).items()
    ]
    for path in sorted((folder / SIMULATED).glob("*.jsonl")):
        entries.append(_file(archive, f"files/{SIMULATED}/{path.name}", _whole_lines(path)))
    if with_key and signer is not None:
        entries.append(_file(archive, KEY_PATH, [signer.private_text().encode() + b"\n"]))
    manifest = Manifest(
        v=1, format=FORMAT, version=__version__, install_id=origin, taken_at=taken_at,
        database=view.dialect.name, revision=revision,
        folder=str(folder.resolve()).encode("utf-8", "replace").decode(), log=head, files=tuple(entries),
    )  # fmt: skip
    body = encode_trusted(msgspec.to_builtins(manifest))
    archive.writestr(MANIFEST, body)
    if signer is not None:
        archive.writestr(ENVELOPE, dsse(body, PAYLOAD_TYPE, [signer]))
    return manifest


def _head(view: View, head: Checkpoint, signer: Ed25519Signer | None) -> LogHead:
    newest = newest_checkpoint(view)
    note = None if newest is None else newest[1]
    if signer is not None:
        note = sign_note(head.body(), signer)
    return LogHead(
        size=head.size, root=head.root.hex(), epoch=log_epoch(view), note=note, signed=signer is not None
    )


def _file(
    archive: zipfile.ZipFile, path: str, pieces: Iterable[bytes], columns: tuple[str, ...] | None = None
) -> Entry:
    """Write a file; of a table (`columns`) each piece is a row."""
    digest, size, count = sha256(), 0, 0
    with archive.open(path, "w", force_zip64=True) as out:
        for piece in pieces:
            out.write(piece)
            digest.update(piece)
            size, count = size + len(piece), count + 1
    rows = None if columns is None else count
    return Entry(path=path, size=size, sha256=digest.hexdigest(), rows=rows, columns=columns)


def _whole_lines(path: Path) -> Iterator[bytes]:
    """A file that another process appends to, up to its last whole line."""
    rest = b""
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            whole, newline, rest = (rest + piece).rpartition(b"\n")
            if newline:
                yield whole + newline

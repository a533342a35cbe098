"""The form of a backup: a ZIP file of rows and files, with a manifest that has the digest of each.

    manifest.json           what is in it (below), canonical JSON
    manifest.dsse.json      the same signed with the log's key, where whoever made the copy has that
    rows/TABLE.jsonl        all rows of a table (see `store.archive`)
    files/simulated/NAME    what the engines of simulated clusters remember
    files/log.key           the private key of the log, only where that was asked for

Checked without a database: every digest, every leaf's hash, the root over all leaves, the signatures.
"""

from __future__ import annotations

import base64
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from steelyard.evidence.bundle import pae
from steelyard.evidence.checkpoint import parse_vkey, verify_note
from steelyard.evidence.keys import fingerprint, verify_signature
from steelyard.evidence.merkle import Frontier
from steelyard.model.errors import InvalidError

MANIFEST, ENVELOPE = "manifest.json", "manifest.dsse.json"
PAYLOAD_TYPE = "application/vnd.steelyard.backup+json"
KEY_PATH = "files/log.key"
FORMAT = "steelyard-backup"
_PATH = re.compile(r"rows/[a-z_]{1,60}\.jsonl|files/log\.key|files/simulated/[a-z0-9][a-z0-9.-]{0,70}\.jsonl")
_PIECE = 1 << 20
_MOST_MANIFEST = 16 << 20
_MOST_ENVELOPE = 2 * _MOST_MANIFEST  # the manifest as base64, and a signature
_MOST_KEY = 64 << 10
_MOST_LINE = 64 << 20  # one row
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 1
_GROUP = 4096


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the backup. `rows` and `columns` for tables only."""

    path: str
    size: int
    sha256: str
    rows: int | None = None
    columns: tuple[str, ...] | None = None


class LogHead(msgspec.Struct, frozen=True, kw_only=True):
    """The log as it was copied. `note`: a signed checkpoint, of this size if `signed`, else the newest
    one that there was; None where none was ever signed."""

    size: int
    root: str
    epoch: int
    note: str | None = None
    signed: bool = False


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup is of. Times are µs UTC; `folder` is the data folder that it was made from."""

    v: int
    format: str
    version: str
    install_id: str
    taken_at: int
    database: str
    revision: str
    folder: str
    log: LogHead
    files: tuple[Entry, ...]

    def table(self, name: str) -> Entry:
        """The entry of a table. Raises InvalidError `backup-malformed`."""
        return next((e for e in self.files if e.path == table_path(name)), None) or _malformed(name)

    @property
    def has_key(self) -> bool:
        """Whether the log's private key is in it."""
        return any(entry.path == KEY_PATH for entry in self.files)


class Verified(NamedTuple):
    """A backup in order. `signer`: fingerprint of the key that signed manifest and head; None: unsigned."""

    manifest: Manifest
    signer: str | None


def table_path(table: str) -> str:
    """Where the rows of a table are."""
    return f"rows/{table}.jsonl"


def _malformed(path: str) -> Any:
    raise InvalidError("backup-malformed", path=path[:200])


@contextmanager
def open_backup(path: Path) -> Iterator[zipfile.ZipFile]:
    """The file, for reading. Raises InvalidError `backup-unreadable`, `backup-malformed`."""
    try:
        archive = zipfile.ZipFile(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidError("backup-unreadable", path=str(path), cause=str(error)[:200]) from None
    with archive:
        try:
            yield archive
        except (zipfile.BadZipFile, EOFError, KeyError, NotImplementedError, zlib.error) as error:
            raise InvalidError("backup-malformed", path=str(error)[:200]) from None


def read_manifest(archive: zipfile.ZipFile) -> Manifest:
    """What the file says it is; every name in it is one of ours, and nothing else is in the file."""
    if MANIFEST not in archive.namelist():
        _malformed(MANIFEST)
    most = {MANIFEST: _MOST_MANIFEST, ENVELOPE: _MOST_ENVELOPE, KEY_PATH: _MOST_KEY}
    for info in archive.infolist():  # those that are read whole, before any is
        readable = info.compress_type in _METHODS and not info.flag_bits & _ENCRYPTED
        if not readable or info.file_size > most.get(info.filename, info.file_size):
            _malformed(info.filename)
    try:
        found = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
    except msgspec.MsgspecError:
        _malformed(MANIFEST)
    if found.format != FORMAT or found.v != 1:
        raise InvalidError("backup-newer", version=found.version[:40])
    paths = [entry.path for entry in found.files]
    if len(set(paths)) != len(paths) or not all(_PATH.fullmatch(path) for path in paths):
        _malformed(MANIFEST)
    if set(archive.namelist()) - {MANIFEST, ENVELOPE} != set(paths):
        _malformed(MANIFEST)
    return found


def lines(archive: zipfile.ZipFile, path: str) -> Iterator[bytes]:
    """The lines of a file. Raises InvalidError `backup-malformed` for one that no row is as long as."""
    with archive.open(path) as file:
        while line := file.readline(_MOST_LINE):
            if len(line) == _MOST_LINE:
                _malformed(path)
            yield line


def verify(archive: zipfile.ZipFile, key: str | None = None) -> Verified:
    """Check everything. `key`: the fingerprint that has to have signed it.

    Raises InvalidError: `backup-malformed`, `backup-changed` (path), `backup-log-differs`,
    `backup-unsigned`, `backup-signature`, `backup-newer`.
    """
    manifest = read_manifest(archive)
    for entry in manifest.files:
        _check_entry(archive, entry)
    _check_log(archive, manifest)
    signer = _check_signature(archive, manifest)
    if key is not None and signer != key.strip().lower():
        raise InvalidError("backup-unsigned", fingerprint=key[:80])
    return Verified(manifest, signer)


def _check_entry(archive: zipfile.ZipFile, entry: Entry) -> None:
    digest, size, rows = sha256(), 0, 0
    if archive.getinfo(entry.path).file_size != entry.size:
        raise InvalidError("backup-changed", path=entry.path)
    with archive.open(entry.path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
            rows += piece.count(b"\n")
    whole = size == entry.size and digest.hexdigest() == entry.sha256
    if not whole or (entry.rows is not None and entry.rows != rows):
        raise InvalidError("backup-changed", path=entry.path)


def rows_of(archive: zipfile.ZipFile, manifest: Manifest, table: str) -> Iterator[dict[str, Any]]:
    """The rows of a table as they stand in the file: bytes are base64 text."""
    entry = manifest.table(table)
    names = entry.columns or ()
    for line in lines(archive, entry.path):
        try:
            yield dict(zip(names, msgspec.json.decode(line), strict=True))
        except (msgspec.MsgspecError, TypeError, ValueError):
            _malformed(entry.path)


def _check_log(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    """The leaves hash to what they carry, and all of them to the root in the manifest."""
    frontier, hashes = Frontier(), list[bytes]()
    for expected, row in enumerate(rows_of(archive, manifest, "leaf")):
        digest = sha256(b"\x00" + _bytes(row["body"], expected)).digest()
        if row["seq"] != expected or _bytes(row["hash"], expected) != digest:
            raise InvalidError("backup-log-differs", seq=expected)
        hashes.append(digest)
        if len(hashes) == _GROUP:
            frontier, hashes = frontier.extend(hashes), []
    frontier = frontier.extend(hashes)
    if (frontier.size, frontier.root().hex()) != (manifest.log.size, manifest.log.root):
        raise InvalidError("backup-log-differs", seq=frontier.size)


def _bytes(text: object, seq: int) -> bytes:
    try:
        return base64.b64decode(text if isinstance(text, str) else "?", validate=True)
    except ValueError:
        raise InvalidError("backup-log-differs", seq=seq) from None


def _check_signature(archive: zipfile.ZipFile, manifest: Manifest) -> str | None:
    """Who signed the manifest: the key of the log that is in force in its rows."""
    if ENVELOPE not in archive.namelist():
        return None
    keys = {row["fingerprint"]: row for row in rows_of(archive, manifest, "log_key")}
    try:
        envelope = msgspec.json.decode(archive.read(ENVELOPE))
        (signature,) = envelope["signatures"]
        payload = base64.b64decode(envelope["payload"], validate=True)
        known = parse_vkey(keys[signature["keyid"]]["vkey"])
        held = verify_signature(
            known.public_key, pae(PAYLOAD_TYPE, payload), base64.b64decode(signature["sig"], validate=True)
        )
        head = verify_note(manifest.log.note or "", [known]).checkpoint
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, InvalidError):
        raise InvalidError("backup-signature") from None
    same = (head.size, head.root.hex()) == (manifest.log.size, manifest.log.root)
    if not held or not same or payload != archive.read(MANIFEST):
        raise InvalidError("backup-signature")
    return fingerprint(known.public_key)

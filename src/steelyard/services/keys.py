"""The log's signing key: a file in the data folder that only the server's user can read.

The log has one key at a time. Its public half is registered in the log by a leaf; a change of keys is a leaf
signed with both. Of a lost one nothing can be signed: the leaf that puts another in its place says so.
A server whose folder has not got the registered key takes part, but does not sign.
"""

from __future__ import annotations

import os
from pathlib import Path

from steelyard.evidence.checkpoint import VerifierKey
from steelyard.evidence.keys import Ed25519Signer, fingerprint, rotation_statement
from steelyard.evidence.leaf import LOG_KIND, LeafDraft, key_lost_draft, key_rotation_draft
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, InvalidError, UnavailableError
from steelyard.model.organisation import Principal, Verb
from steelyard.store import tables as t
from steelyard.store.audit import LogKeyRow, log_keys
from steelyard.store.database import View
from steelyard.store.leaves import newest_checkpoint
from steelyard.store.store import Store
from steelyard.store.unit import Unit

KEY_FILE = "log.key"
NEXT_FILE = "log.key.next"
ACTION_REGISTERED = "log.key-registered"


class LogSigner:
    """The log's signer, which changes its key when the log's key is rotated."""

    def __init__(self, name: str, current: Ed25519Signer | None) -> None:
        self._name = name
        self._current = current

    @property
    def able(self) -> bool:
        """Whether this server has the log's key."""
        return self._current is not None

    @property
    def current(self) -> Ed25519Signer:
        """The key itself. Raises UnavailableError `log-key-elsewhere`."""
        if self._current is None:
            raise UnavailableError("log-key-elsewhere")
        return self._current

    @property
    def name(self) -> str:
        """See `evidence.keys.Signer`."""
        return self._name

    @property
    def public_key(self) -> bytes:
        """See `evidence.keys.Signer`."""
        return self.current.public_key

    def sign(self, message: bytes) -> bytes:
        """See `evidence.keys.Signer`."""
        return self.current.sign(message)

    def replace(self, fresh: Ed25519Signer) -> None:
        """Sign with another key from now on."""
        self._current = fresh


def open_log_key(store: Store, folder: Path) -> LogSigner:
    """The log's signer of this server; at the very first start the key is made (0600) and registered.

    Raises InvalidError `log-key-exposed` when others can read the file, `log-key-unknown` when it is not
    the key that is registered.
    """
    name, path = store.install_id, folder / KEY_FILE
    with store.read() as view:
        registered = log_keys(view)
    active = [row for row in registered if row.retired_at is None]
    _finish_rotation(name, folder, registered)
    if not path.exists():
        if active:
            return LogSigner(name, None)
        _write_key(path, Ed25519Signer.generate(name))
    signer = _read_key(name, path)
    if active and active[-1].fingerprint != fingerprint(signer.public_key):
        raise InvalidError("log-key-unknown", path=str(path), registered=active[-1].fingerprint)
    if not active:
        try:
            store.writer.write(_registration(store, signer))
        except ConflictError:
            return open_log_key(store, folder)  # another server was faster
    return LogSigner(name, signer)


def held_key(view: View, name: str, folder: Path) -> Ed25519Signer | None:
    """The log's key if this folder has the one that is registered; makes none and changes nothing."""
    path, active = folder / KEY_FILE, [row for row in log_keys(view) if row.retired_at is None]
    if not active or not path.exists():
        return None
    signer = _read_key(name, path)
    return signer if active[-1].fingerprint == fingerprint(signer.public_key) else None


def put_key(folder: Path, name: str, body: str) -> None:
    """Give a folder the log's key, as its private text. Raises InvalidError `key-base64`, `key-length`."""
    _write_key(folder / KEY_FILE, Ed25519Signer.from_text(name, body))


def rotate_log_key(store: Store, folder: Path, signer: LogSigner, principal: Principal = SYSTEM) -> str:
    """A new key signs from here on; the leaf carries a statement signed with both. Its fingerprint.

    Sign a checkpoint right after it, so that the new key is seen to have taken over.
    """
    authorise(principal, Verb.MANAGE, "log-key")
    old, new = signer.current, Ed25519Signer.generate(signer.name)
    _write_key(folder / NEXT_FILE, new)
    statement = rotation_statement(old, new, store.writer.state.size)
    unit, at = Unit(actor_of(principal)), store.now()
    unit.update(t.log_key, {"fingerprint": fingerprint(old.public_key)}, null=("retired_at",), retired_at=at)
    _insert_key(unit, new, store.writer.state.size, at)
    unit.leaf(key_rotation_draft(statement))
    store.writer.write(unit)
    os.replace(folder / NEXT_FILE, folder / KEY_FILE)
    _sync(folder)
    signer.replace(new)
    return fingerprint(new.public_key)


def replace_lost_key(store: Store, folder: Path, principal: Principal = SYSTEM) -> LogSigner:
    """A new key for a log whose key is lost. The leaf gives the old one up by name and claims no continuity:
    who knew the lost key has to be told the new one. Sign a checkpoint right after it.

    Raises ConflictError `log-key-not-lost` where the folder has it, InvalidError `log-key-unknown` where
    another file is in its place, `log-key-none` where the log has had none yet.
    """
    authorise(principal, Verb.MANAGE, "log-key")
    with store.read() as view:
        active = [row for row in log_keys(view) if row.retired_at is None]
        newest = newest_checkpoint(view)
    if not active:
        raise InvalidError("log-key-none")
    if open_log_key(store, folder).able:
        raise ConflictError("log-key-not-lost", path=str(folder / KEY_FILE))
    lost, fresh = active[-1].fingerprint, Ed25519Signer.generate(store.install_id)
    _write_key(folder / NEXT_FILE, fresh)
    unit, at = Unit(actor_of(principal)), store.now()
    unit.update(t.log_key, {"fingerprint": lost}, null=("retired_at",), retired_at=at)
    _insert_key(unit, fresh, store.writer.state.size, at)
    unit.leaf(key_lost_draft(lost, _public(fresh), 0 if newest is None else newest[0]))
    store.writer.write(unit)
    os.replace(folder / NEXT_FILE, folder / KEY_FILE)
    _sync(folder)
    return LogSigner(store.install_id, fresh)


def _public(signer: Ed25519Signer) -> dict[str, str]:
    vkey = VerifierKey(signer.name, signer.public_key).vkey()
    return {"name": signer.name, "fingerprint": fingerprint(signer.public_key), "vkey": vkey}


def _registration(store: Store, signer: Ed25519Signer) -> Unit:
    unit = Unit(actor_of(SYSTEM))
    _insert_key(unit, signer, store.writer.state.size, store.now())
    key = _public(signer)
    unit.leaf(LeafDraft(ACTION_REGISTERED, LOG_KIND, LOG_KIND, extra={"key": key}))
    # a second server that registers at the same moment fails on this row
    unit.insert(t.setting, name="log-key-registered", value=key["fingerprint"])
    return unit


def _insert_key(unit: Unit, signer: Ed25519Signer, seq: int, at: int) -> None:
    unit.insert(
        t.log_key,
        fingerprint=fingerprint(signer.public_key),
        name=signer.name,
        vkey=VerifierKey(signer.name, signer.public_key).vkey(),
        from_seq=seq,
        created_at=at,
        retired_at=None,
    )


def _finish_rotation(name: str, folder: Path, registered: list[LogKeyRow]) -> None:
    """A crash between the leaf and the change of files: the leaf says which key it is."""
    following = folder / NEXT_FILE
    if not following.exists():
        return
    mark = fingerprint(_read_key(name, following).public_key)
    if any(row.fingerprint == mark for row in registered):
        os.replace(following, folder / KEY_FILE)
        _sync(folder)
    else:
        following.unlink()


def _read_key(name: str, path: Path) -> Ed25519Signer:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii") as file:
            exposed = os.fstat(file.fileno()).st_mode & 0o077
            body = file.read(200)
    except OSError as error:
        raise InvalidError("data-folder-unusable", path=str(path), cause=error.strerror or "") from None
    if exposed:
        raise InvalidError("log-key-exposed", path=str(path))
    return Ed25519Signer.from_text(name, body)


def _write_key(path: Path, signer: Ed25519Signer) -> None:
    """Whole or not at all, and readable by nobody else at any moment."""
    part = path.with_name(path.name + ".part")
    try:
        part.unlink(missing_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(part, flags, 0o600), "w", encoding="ascii") as file:
            file.write(signer.private_text() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync(path.parent)
    except OSError as error:
        raise InvalidError("data-folder-unusable", path=str(path), cause=error.strerror or "") from None


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

"""An evidence bundle of the server: its whole log, its usage in a window, signed with the log's key.

Order matters: the heads of all streams are pinned by a leaf, a checkpoint that covers it is signed, and only
then the rows are read. What the bundle says of usage may be younger than its log, never the other way.
"""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from steelyard import __version__
from steelyard.evidence.bundle import audit_files, seal, verifier_files
from steelyard.evidence.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    policy_text,
    sign_note,
)
from steelyard.evidence.keys import Signer
from steelyard.evidence.leaf import Head, pinned_heads_draft
from steelyard.evidence.merkle import EMPTY_ROOT, consistency_proof, inclusion_proof
from steelyard.evidence.verify import LEAVES
from steelyard.identity.actor import actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import InvalidError, UnavailableError
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.services.audit import LogKey, checkpoint
from steelyard.services.bundle_files import (
    REPORT_COLUMNS,
    dump,
    inventory_files,
    pending,
    uncovered,
    usage_files,
)
from steelyard.services.bundle_folder import BundleFolder, Pieces
from steelyard.services.checks import check_books, open_books
from steelyard.services.log_check import check_log
from steelyard.services.usage import report_in, usage_window
from steelyard.store import audit as repository
from steelyard.store.database import View
from steelyard.store.leaves import bodies, leaf_body, stream_heads, tile_reader
from steelyard.store.store import Store
from steelyard.store.unit import Unit

Json = dict[str, Any]
#: Of each kind, how many of the newest leaves get an inclusion proof of their own.
NAMED_PROOFS = 20
_IN_MEMORY, _PIECE = 16 * 1024 * 1024, 64 * 1024


def export_bundle(
    store: Store,
    principal: Principal,
    signer: LogKey,
    start: int | None = None,
    end: int | None = None,
    extra: Mapping[str, bytes] | None = None,
    beside: Path | None = None,
) -> BundleFolder:
    """All files by path, on disk in a temporary folder within `beside`. `extra` files are listed and signed
    like the others.

    Raises UnavailableError `log-key-elsewhere`, InvalidError `window-invalid`.
    """
    authorise(principal, Verb.AUDIT, "audit")
    heads_seq = _pin_heads(store, principal, signer)
    note = checkpoint(store, signer, "export")
    if note is None:
        raise UnavailableError("log-key-elsewhere")
    files = BundleFolder(beside)
    with store.read() as view:
        now = store.now()
        window = usage_window(view, start, end, now)
        if window[0] >= window[1]:
            raise InvalidError("window-invalid", start=window[0], end=window[1])
        books = open_books(view, now)
        checks = [*check_books(view, books), *check_log(view)]
        usage = report_in(view, Scope.system(), window, REPORT_COLUMNS)
        devices = repository.all_devices(view)
        audit, logged = _audit(view, signer, note, window[0], heads_seq)
        files.put(audit)
        files.put(usage_files(view, books, window, checks, usage))
        files.put(inventory_files(view, books, window))
        files.put({"pending.json": dump(pending(devices, witnessed=False))})
        files.put({"uncovered.json": dump(uncovered(books))})
    files.put({**(extra or {}), **verifier_files()})
    predicate: Json = {
        "v": 1,
        "adapter": "steelyard",
        "exporter": {"product": "steelyard", "version": __version__, "install_id": store.install_id},
        "log": logged,
        "plan_digest": None,
        "scope": {"from": window[0], "to": window[1]},
        "simulated": any(bool(device["simulated"]) for device in devices),
        "verdicts_digest": None,
    }
    files.put(seal(files.described(), predicate, signer))
    return files


def _pin_heads(store: Store, principal: Principal, signer: LogKey) -> int:
    """The stream-heads leaf; its seq."""
    if not signer.able:
        raise UnavailableError("log-key-elsewhere")
    with store.read() as view:
        names = sorted(stream_heads(view))
    unit = Unit(actor_of(principal))
    unit.leaf(pinned_heads_draft(names))
    return store.writer.write(unit).first_seq


def _audit(
    view: View, signer: Signer, note: str, start: int, heads_seq: int
) -> tuple[dict[str, Pieces], Json]:
    head = parse_checkpoint(parse_note(note).body)
    first, start_note = _start(view, signer, head, start)
    reader = tile_reader(view)
    named = [*repository.leaf_seqs(view, kind="refusal", limit=NAMED_PROOFS)]
    named += repository.leaf_seqs(view, action="workload.finish", limit=NAMED_PROOFS)
    files: dict[str, Pieces] = {LEAVES: (body + b"\n" for body in bodies(view, 0, head.size))}
    files |= audit_files(
        leaf_bodies=None,
        start_note=start_note,
        end_note=note,
        sizes=(first, head.size),
        consistency=consistency_proof(first, head.size, reader),
        policy=_policy(view, head.size),
        complete=True,
        heads=_pinned(view, heads_seq),
        heads_seq=heads_seq,
        proofs={seq: inclusion_proof(seq, head.size, reader) for seq in named if seq < head.size},
    )
    logged: Json = {
        "origin": head.origin,
        "start": {"size": first},
        "end": {"size": head.size, "root": head.root.hex()},
    }
    return files, logged


def _start(view: View, signer: Signer, head: Checkpoint, at: int) -> tuple[int, str]:
    """The newest checkpoint signed before the window; else that of the empty log, which begins every log,
    unless an older key would have to sign it."""
    found = repository.checkpoint_before(view, at)
    if found is None and len(repository.log_keys(view)) > 1:
        found = repository.oldest_checkpoint(view)
    if found is not None and found[0] <= head.size:
        return found
    return 0, sign_note(Checkpoint(head.origin, 0, EMPTY_ROOT).body(), signer)


def _policy(view: View, size: int) -> str:
    """Keys that signed for the log up to this size, the newest one first."""
    keys = [row for row in repository.log_keys(view) if row.from_seq <= size]
    return policy_text([parse_vkey(row.vkey) for row in reversed(keys)])


def _pinned(view: View, seq: int) -> dict[str, Head]:
    """The heads as the leaf states them."""
    leaf = msgspec.json.decode(leaf_body(view, seq) or b"{}")
    return {
        item["name"]: Head(item["n"], item["seq"], bytes.fromhex(item["hash"]))
        for item in leaf["detail"]["heads"]
    }


def write_tar(files: BundleFolder, out: BinaryIO) -> None:
    """A plain tar, the same bytes for the same files."""
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(files):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = files.size(path), 0o644
            with files.open(path) as content:
                archive.addfile(entry, content)


def spooled_tar(files: BundleFolder, beside: Path | None = None) -> BinaryIO:
    """The tar, at its beginning; a large one lies on disk, within `beside`."""
    place = None if beside is None else str(beside)
    spool = cast(BinaryIO, tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY, dir=place))  # noqa: SIM115  (closed by its reader)
    with ExitStack() as unfinished:
        unfinished.callback(spool.close)
        write_tar(files, spool)
        spool.seek(0)
        unfinished.pop_all()
    return spool


def read_pieces(archive: BinaryIO) -> Iterator[bytes]:
    """The archive piece by piece; closes it."""
    with archive:
        while piece := archive.read(_PIECE):
            yield piece

"""The evidence log as people read it: where it stands, its streams, one record with its proof checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from steelyard.evidence.checkpoint import (
    Checkpoint,
    VerifierKey,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    short_code,
    verify_note,
)
from steelyard.evidence.merkle import (
    consistency_proof,
    leaf_hash,
    verify_consistency,
    verify_inclusion,
)
from steelyard.evidence.proof import parse_tlog_proof
from steelyard.identity.authorise import authorise
from steelyard.model.errors import InvalidError, NotFoundError, UnavailableError
from steelyard.model.organisation import Principal, Verb
from steelyard.services import audit
from steelyard.store import audit as repository
from steelyard.store.database import View
from steelyard.store.leaves import checkpoint_at, log_size, tile_reader
from steelyard.store.scoped import page_size
from steelyard.store.store import Store
from steelyard.store.workloads import account_names

Json = dict[str, Any]
CHECKPOINTS = 20
STREAM_KINDS = ("project", "actor", "cluster", "system", "object")


@dataclass(frozen=True, slots=True)
class Signed:
    """A checkpoint that was signed, and whether its signature holds with a key of this log."""

    size: int
    at: int
    reason: str
    root: str
    code: str
    holds: bool


def state(store: Store, principal: Principal, signer: audit.LogKey | None) -> Json:
    """`{size, newest, checkpoints, log_keys}`. `newest` is None where none is signed and none can be."""
    authorise(principal, Verb.AUDIT, audit.NOUN)
    try:
        newest: Json | None = audit.newest(store, principal, signer)
    except UnavailableError:
        newest = None
    with store.read() as view:
        known = _keys(view)
        return {
            "size": log_size(view),
            "newest": newest,
            "checkpoints": [_signed(row, known) for row in repository.checkpoints(view, CHECKPOINTS)],
            "log_keys": repository.log_keys(view),
        }


def _keys(view: View) -> list[VerifierKey]:
    return [parse_vkey(row.vkey) for row in repository.log_keys(view)]


def _signed(row: tuple[int, int, str, str], known: list[VerifierKey]) -> Signed:
    size, at, reason, note = row
    head = parse_checkpoint(parse_note(note).body)
    return Signed(size, at, reason, head.root.hex(), short_code(head), _holds(note, known) is not None)


def _holds(note: str, known: list[VerifierKey]) -> Checkpoint | None:
    """What the note says, if a key of the log has signed it."""
    try:
        return verify_note(note, known).checkpoint
    except InvalidError:
        return None


def newest_leaves(store: Store, principal: Principal, before: int | None, limit: int) -> list[Json]:
    """The log from its end, or from before a leaf, backwards."""
    authorise(principal, Verb.AUDIT, audit.NOUN)
    with store.read() as view:
        found = repository.leaves_before(view, before, page_size(limit))
    return [{**msgspec.json.decode(leaf.body), "hash": leaf.hash.hex()} for leaf in found]


def actor_names(store: Store, principal: Principal, leaves: list[Json]) -> dict[str, str]:
    """Actor id → account name, of those that have an account."""
    authorise(principal, Verb.AUDIT, audit.NOUN)
    with store.read() as view:
        return account_names(view, {leaf["actor"]["id"] for leaf in leaves})


def streams(
    store: Store, principal: Principal, *, kind: str | None, text: str, after: str, limit: int
) -> tuple[list[Json], str | None]:
    """A page of streams by name: of projects, actors, clusters and the system; an object's own stream is
    found by the object's name. And the cursor of the next page."""
    authorise(principal, Verb.AUDIT, audit.NOUN)
    with store.read() as view:
        rows = repository.streams_page(view, kind=kind, text=text, after=after, limit=page_size(limit))
    found = [{"name": name, "n": n, "seq": seq} for name, n, seq in rows]
    return found, rows[-1][0] if len(rows) == limit else None


def leaf_page(store: Store, principal: Principal, seq: int, signer: audit.LogKey | None) -> Json:
    """A record as it is stored, and its inclusion proof, each step of which was made and checked here.

    `proof` is None where no checkpoint covers the record and none can be signed here.
    Raises NotFoundError.
    """
    authorise(principal, Verb.AUDIT, audit.NOUN)
    with store.read() as view:
        found = next(iter(repository.page_of_leaves(view, seq - 1, 1)), None)
        known = _keys(view)
    if found is None or found.seq != seq:
        raise NotFoundError("not-found", kind="leaf", id=str(seq))
    leaf: Json = msgspec.json.decode(found.body)
    try:
        text: str | None = audit.proof(store, principal, seq, signer)
    except UnavailableError:
        text = None
    return {
        "leaf": leaf,
        "body": found.body.decode(),
        "hash": leaf_hash(found.body).hex(),
        "stored_hash": found.hash.hex(),
        "proof": None if text is None else _checked(text, found.body, known),
    }


def _checked(text: str, body: bytes, known: list[VerifierKey]) -> Json:
    """The proof taken apart, and whether it holds: the record's hash up the path to the signed root."""
    proof = parse_tlog_proof(text)
    head = parse_checkpoint(parse_note(proof.checkpoint_note).body)
    digest = leaf_hash(body)
    return {
        "text": text,
        "index": proof.index,
        "size": head.size,
        "root": head.root.hex(),
        "path": [step.hex() for step in proof.proof],
        "included": verify_inclusion(digest, proof.index, head.size, list(proof.proof), head.root),
        "signed": _holds(proof.checkpoint_note, known) is not None,
        "note": proof.checkpoint_note,
        "code": short_code(head),
    }


def consistency(store: Store, principal: Principal, start: int, end: int) -> Json:
    """Whether the log signed at size `end` begins with the one signed at `start`, proven with both roots.

    Raises NotFoundError where no checkpoint was signed at a size, InvalidError `log-range-invalid`.
    """
    authorise(principal, Verb.AUDIT, audit.NOUN)
    with store.read() as view:
        known, size = _keys(view), log_size(view)
        heads = [_at(view, at, known) for at in (start, end)]
        if not 0 <= start <= end <= size:
            raise InvalidError("log-range-invalid", start=start, end=end, size=size)
        steps = consistency_proof(start, end, tile_reader(view))
    first, last = heads
    return {
        "from": {"size": start, "root": first.root.hex(), "code": short_code(first)},
        "to": {"size": end, "root": last.root.hex(), "code": short_code(last)},
        "path": [step.hex() for step in steps],
        "holds": verify_consistency(start, end, steps, first.root, last.root),
    }


def _at(view: View, size: int, known: list[VerifierKey]) -> Checkpoint:
    note = checkpoint_at(view, size)
    if note is None:
        raise NotFoundError("not-found", kind="checkpoint", id=str(size))
    head = _holds(note, known)
    if head is None:
        raise InvalidError("note-unsigned")
    return head

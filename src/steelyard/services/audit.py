"""The evidence log for auditors: signed checkpoints, proofs, and streams walked back leaf by leaf."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec
import structlog

from steelyard.evidence.checkpoint import (
    Checkpoint,
    parse_checkpoint,
    parse_note,
    parse_vkey,
    short_code,
    sign_note,
)
from steelyard.evidence.keys import Signer
from steelyard.evidence.leaf import Head
from steelyard.evidence.merkle import consistency_proof, inclusion_proof
from steelyard.evidence.proof import render_tlog_proof
from steelyard.identity.actor import SYSTEM, actor_of
from steelyard.identity.authorise import authorise
from steelyard.model.errors import ConflictError, InvalidError, NotFoundError, UnavailableError
from steelyard.model.organisation import Principal, Verb
from steelyard.store import audit as repository
from steelyard.store import tables as t
from steelyard.store.database import View
from steelyard.store.leaves import checkpoint_at, leaf_body, log_size, newest_checkpoint, tile_reader
from steelyard.store.scoped import page_size
from steelyard.store.store import Store
from steelyard.store.unit import Unit

log = structlog.get_logger(__name__)

Json = dict[str, Any]
NOUN = "audit"


class LogKey(Signer, Protocol):
    """The log's signer; `able` is False on a server that has not got the key."""

    @property
    def able(self) -> bool:
        """Whether it can sign."""
        ...


def authorise_audit(principal: Principal) -> None:
    """Raises ForbiddenError unless the principal may audit the whole installation."""
    authorise(principal, Verb.AUDIT, NOUN)


def checkpoint(store: Store, signer: LogKey, reason: str) -> str | None:
    """Sign the log as committed and keep the note; None on a server without the log's key.

    A size that was signed already is not signed again.
    """
    if not signer.able:
        log.info("checkpoint-not-signed", reason=reason)
        return None
    with store.read() as view:
        origin, frontier = repository.log_frontier(view)
        known = checkpoint_at(view, frontier.size)
    if known is not None:
        return known
    note = sign_note(Checkpoint(origin, frontier.size, frontier.root()).body(), signer)
    unit = Unit(actor_of(SYSTEM))
    unit.insert(t.checkpoint, size=frontier.size, ts=store.now(), reason=reason, note=note)
    try:
        store.writer.write(unit)
    except ConflictError:
        with store.read() as view:  # another server signed the same size at the same moment
            return checkpoint_at(view, frontier.size)
    return note


def newest(store: Store, principal: Principal, signer: LogKey | None) -> Json:
    """The newest signed checkpoint; the first one is signed when it is asked for.

    Raises UnavailableError `log-key-elsewhere` when there is none and this server can't sign.
    """
    authorise(principal, Verb.AUDIT, NOUN)
    with store.read() as view:
        found = newest_checkpoint(view)
    note = found[1] if found is not None else None
    if note is None:
        note = checkpoint(store, signer, "first") if signer is not None else None
    if note is None:
        raise UnavailableError("log-key-elsewhere")
    with store.read() as view:
        return checkpoint_view(view, note)


def checkpoint_view(view: View, note: str) -> Json:
    """A note taken apart, with the key that signed it."""
    parsed = parse_note(note)
    head = parse_checkpoint(parsed.body)
    ids = {line.key_id for line in parsed.signatures}
    key = next((row for row in repository.log_keys(view) if parse_vkey(row.vkey).key_id in ids), None)
    return {
        "size": head.size,
        "root": head.root.hex(),
        "origin": head.origin,
        "note": note,
        "short_code": short_code(head),
        "key": None if key is None else {"name": key.name, "vkey": key.vkey, "fingerprint": key.fingerprint},
    }


def proof(store: Store, principal: Principal, seq: int, signer: LogKey | None) -> str:
    """The inclusion proof of a leaf in the newest checkpoint, as a C2SP tlog-proof with the leaf in it.

    A leaf that no checkpoint covers yet is covered by a new one. Raises NotFoundError, UnavailableError.
    """
    authorise(principal, Verb.AUDIT, NOUN)
    with store.read() as view:
        found = newest_checkpoint(view)
        if not 0 <= seq < log_size(view):
            raise NotFoundError("not-found", kind="leaf", id=str(seq))
    if found is None or found[0] <= seq:
        note = checkpoint(store, signer, "proof") if signer is not None else None
        if note is None:
            raise UnavailableError("log-key-elsewhere")
        found = (parse_checkpoint(parse_note(note).body).size, note)
    with store.read() as view:
        steps = inclusion_proof(seq, found[0], tile_reader(view))
        return render_tlog_proof(seq, leaf_body(view, seq), steps, found[1])


def consistency(store: Store, principal: Principal, start: int, end: int | None) -> Json:
    """RFC 6962 proof that the log of size `end` (None: now) begins with that of size `start`."""
    authorise(principal, Verb.AUDIT, NOUN)
    with store.read() as view:
        size = log_size(view)
        last = size if end is None else end
        if not 0 <= start <= last <= size:
            raise InvalidError("log-range-invalid", start=start, end=last, size=size)
        steps = consistency_proof(start, last, tile_reader(view))
    return {"v": 1, "from": start, "to": last, "proof": [step.hex() for step in steps]}


def leaves(
    store: Store, principal: Principal, stream: str | None, after: int | None = None, limit: int = 50
) -> Json:
    """A stream from its head back (`after`: the last leaf of the page before); without a stream, the log
    in its order. Raises NotFoundError for a stream that there is not."""
    authorise(principal, Verb.AUDIT, NOUN)
    page_size(limit)
    with store.read() as view:
        if stream is None:
            found = repository.page_of_leaves(view, -1 if after is None else after, limit)
            items = [_leaf(leaf.hash.hex(), leaf.body) for leaf in found]
            return {"stream": None, "head": None, "items": items, "next": _next(items, limit)}
        head = stream_head(view, stream)
        if head is None:
            raise NotFoundError("not-found", kind="stream", id=stream[:200])
        items = _walk(view, stream, head, after, limit)
    shown = {"n": head.n, "seq": head.seq, "hash": head.hash.hex()}
    done = bool(items) and _entry(items[-1], stream)["prev_seq"] is None
    return {"stream": stream, "head": shown, "items": items, "next": None if done else _next(items, limit)}


def _next(items: list[Json], limit: int) -> int | None:
    return items[-1]["seq"] if len(items) == limit else None


def stream_head(view: View, stream: str) -> Head | None:
    """Where a stream stands, from the head table or the object's own row."""
    kind, _, rest = stream.partition("/")
    if kind != "object":
        return repository.table_head(view, stream)
    object_kind, _, object_id = rest.partition("/")
    return repository.object_head(view, object_kind, object_id)


def _walk(view: View, stream: str, head: Head, after: int | None, limit: int) -> list[Json]:
    """By `prev_seq` and primary key: a stream needs no table of its own."""
    seq: int | None = head.seq
    if after is not None:
        body = leaf_body(view, after)
        if body is None:
            raise NotFoundError("not-found", kind="leaf", id=str(after))
        seq = _entry(msgspec.json.decode(body), stream)["prev_seq"]
    items: list[Json] = []
    while seq is not None and len(items) < limit:
        found = next(iter(repository.page_of_leaves(view, seq - 1, 1)), None)
        if found is None or found.seq != seq:
            raise NotFoundError("not-found", kind="leaf", id=str(seq))
        item = _leaf(found.hash.hex(), found.body)
        items.append(item)
        seq = _entry(item, stream)["prev_seq"]
    return items


def _entry(leaf: Json, stream: str) -> Json:
    for entry in leaf["streams"]:
        if entry["name"] == stream:
            found: Json = entry
            return found
    raise NotFoundError("not-found", kind="stream", id=stream[:200])


def _leaf(digest: str, body: bytes) -> Json:
    leaf: Json = msgspec.json.decode(body)
    return {**leaf, "hash": digest}

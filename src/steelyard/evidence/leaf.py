"""Leaves of the evidence log, schema 1: how a draft becomes bytes, and how leaves are sequenced.

A leaf is one canonical JSON object (RFC 8785). All fields are always there; what is not known is null:

    {v, seq, ts, actor{id, kind, groups, role_bindings_digest}, origin{client, ip, request_id} | null,
     action, object{kind, id, version_before, version_after}, outcome, reason_code, rule_version,
     before_digest, after_digest, transitions[{from, to, at, sub}], streams[{name, n, prev, prev_seq}],
     trace_id, adapter{source, source_ref} | null, detail}

`seq` is the leaf's index in the Merkle tree. Each stream entry says how many leaves of that stream came
before (`n`), and the hash and seq of the last of them. Digests and hashes are lower-case hex SHA-256.

The structs below are declared in the order of their JSON names, which is what makes their bytes canonical
without sorting (the tests hold them against rfc8785).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple, TypeAlias

import msgspec

from steelyard.evidence.canonical import decode_strict, encode, encode_trusted
from steelyard.evidence.merkle import NO_TAILS, Frontier, Tails, Tile, grow_tiles

SCHEMA = 1
ACTION_STREAM_HEADS = "log.stream-heads"
ACTION_KEY_ROTATED = "log.key-rotated"
ACTION_KEY_REVOKED = "log.key-revoked"
KEY_LOST = "key-lost"
ACTION_RESTORED = "log.restored"
BLIND_PREFIX = "blind."
"""Actions of leaves by which the log admits that it could not see: blind.collector-lost, blind.log-paused,
blind.clock-stepped …; reports and the verifier name and count them."""
LOG_KIND = "log"
"""Object kind of leaves about the log itself; its one object is named "log", too."""


class Transition(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename={"from_": "from"}):
    """One change of phase: `from_` is None at birth, `at` in µs, `sub` the engine's sub-stage."""

    at: int
    from_: str | None = None
    sub: str | None = None
    to: str


class ActorRef(NamedTuple):
    """Who acted. `kind`: user, service, system, engine …; no names: those are confidential."""

    id: str
    kind: str = "user"
    groups: tuple[str, ...] = ()
    role_bindings_digest: str | None = None


class Origin(NamedTuple):
    """Where a request came from; `client` and `ip` as `confidential.conceal` returned them."""

    client: dict[str, str] | None = None
    ip: dict[str, str] | None = None
    request_id: str | None = None


class Adapter(NamedTuple):
    """The outside system that a leaf repeats something from, and its own reference for it."""

    source: str
    source_ref: str | None = None


@dataclass(slots=True)
class LeafDraft:
    """A leaf before it has its place: what the unit of work says.

    `outcome`: allowed, refused or error. `detail` of the leaf is `extra`: plain JSON values, checked.
    `pins`: streams whose heads, as they stand right before this leaf, become its `extra`.
    """

    action: str
    object_kind: str
    object_id: str
    version_before: int | None = None
    version_after: int | None = None
    outcome: str = "allowed"
    reason_code: str | None = None
    rule_version: str | int | None = None
    before_digest: str | None = None
    after_digest: str | None = None
    transitions: Sequence[Transition] = ()
    project: str | None = None
    cluster: str | None = None
    origin: Origin | None = None
    trace_id: str | None = None
    adapter: Adapter | None = None
    extra: dict[str, Any] | None = None
    pins: tuple[str, ...] = ()


class Head(NamedTuple):
    """Where a stream stands: how many leaves it has, and its last one. A new stream has no head."""

    n: int
    seq: int
    hash: bytes


HeadLookup: TypeAlias = Callable[[str], Head | None]


class LogState(NamedTuple):
    """What the log row holds (size, frontier, epoch), and the tails of the tiles, kept in memory."""

    size: int = 0
    frontier: Frontier = Frontier()
    epoch: int = 0
    tails: Tails = NO_TAILS


class LeafRow(NamedTuple):
    """A sequenced leaf as it is stored."""

    seq: int
    ts: int
    action: str
    object_kind: str
    object_id: str
    outcome: str
    body: bytes
    hash: bytes


class Sequenced(NamedTuple):
    """The write set of a group of leaves. Tiles and heads replace nothing older than themselves."""

    rows: list[LeafRow]
    heads: dict[str, Head]
    tiles: list[Tile]
    state: LogState


class _Object(msgspec.Struct, gc=False):
    id: str
    kind: str
    version_after: int | None
    version_before: int | None


class _Stream(msgspec.Struct, gc=False):
    n: int
    name: str
    prev: str | None
    prev_seq: int | None


class _Leaf(msgspec.Struct, gc=False):
    action: str
    actor: msgspec.Raw
    adapter: msgspec.Raw
    after_digest: str | None
    before_digest: str | None
    detail: msgspec.Raw
    object: _Object
    origin: msgspec.Raw
    outcome: str
    reason_code: str | None
    rule_version: str | int | None
    seq: int
    streams: list[_Stream]
    trace_id: str | None
    transitions: Sequence[Transition]
    ts: int
    v: int


_NULL = msgspec.Raw(b"null")


def stream_names(actor_id: str, draft: LeafDraft) -> list[str]:
    """Streams of a leaf, in their order: project (if any), object, actor, cluster or else system."""
    names = [
        f"object/{draft.object_kind}/{draft.object_id}",
        f"actor/{actor_id}",
        f"cluster/{draft.cluster}" if draft.cluster is not None else "system",
    ]
    if draft.project is not None:
        names.insert(0, f"project/{draft.project}")
    return names


class _Fragments:
    """Encoded parts that many leaves of a group share: actors, origins, adapters."""

    def __init__(self) -> None:
        self._actors: dict[ActorRef, msgspec.Raw] = {}
        self._origin: tuple[Origin | None, msgspec.Raw] = (None, _NULL)

    def actor(self, actor: ActorRef) -> msgspec.Raw:
        raw = self._actors.get(actor)
        if raw is None:
            raw = self._actors[actor] = msgspec.Raw(encode(actor._asdict()))
        return raw

    def origin(self, origin: Origin | None) -> msgspec.Raw:
        known, raw = self._origin
        if known is not origin:
            raw = _NULL if origin is None else msgspec.Raw(encode(origin._asdict()))
            self._origin = (origin, raw)
        return raw


def _body(seq: int, ts: int, draft: LeafDraft, actor: msgspec.Raw, origin: msgspec.Raw,
          streams: list[_Stream]) -> bytes:  # fmt: skip
    adapter, extra = draft.adapter, draft.extra
    body = encode_trusted(
        _Leaf(
            draft.action,
            actor,
            _NULL if adapter is None else msgspec.Raw(encode(adapter._asdict())),
            draft.after_digest,
            draft.before_digest,
            _NULL if extra is None else msgspec.Raw(encode(extra)),
            _Object(draft.object_id, draft.object_kind, draft.version_after, draft.version_before),
            origin,
            draft.outcome,
            draft.reason_code,
            draft.rule_version,
            seq,
            streams,
            draft.trace_id,
            draft.transitions,
            ts,
            SCHEMA,
        )
    )
    if not body.isascii():
        decode_strict(body)
    return body


def sequence(
    state: LogState, ts: int, items: Sequence[tuple[ActorRef, LeafDraft]], heads: HeadLookup
) -> Sequenced:
    """Give the drafts their places after `state`, in order, all with the time `ts` (µs UTC).

    Leaves of one call that share streams are chained among themselves. Pure: nothing is written, and the
    state given stays valid if the transaction fails. Raises InvalidError (`canonical-…`) for text or
    values that have no canonical form.
    """
    rows: list[LeafRow] = []
    fresh: dict[str, Head] = {}
    fragments = _Fragments()
    seq = state.size
    for actor, draft in items:
        if draft.pins:
            draft.extra = {
                "heads": heads_detail(_known(draft.pins, lambda name: fresh.get(name) or heads(name)))
            }
        names = stream_names(actor[0], draft)
        streams: list[_Stream] = []
        for name in names:
            head = fresh.get(name) or heads(name)
            if head is None:
                streams.append(_Stream(0, name, None, None))
            else:
                streams.append(_Stream(head[0], name, head[2].hex(), head[1]))
        body = _body(seq, ts, draft, fragments.actor(actor), fragments.origin(draft.origin), streams)
        digest = sha256(b"\x00" + body).digest()
        for stream in streams:
            fresh[stream.name] = Head(stream.n + 1, seq, digest)
        row = LeafRow(seq, ts, draft.action, draft.object_kind, draft.object_id, draft.outcome, body, digest)
        rows.append(row)
        seq += 1
    return Sequenced(rows, fresh, *advance(state, [row[7] for row in rows]))


def _known(names: Iterable[str], lookup: HeadLookup) -> dict[str, Head]:
    found = ((name, lookup(name)) for name in names)
    return {name: head for name, head in found if head is not None}


def advance(state: LogState, hashes: Sequence[bytes]) -> tuple[list[Tile], LogState]:
    """Tiles completed and the state after appending leaf hashes.

    Also how a server whose state is older than the log row catches up (compare the frontiers after).
    """
    growth = state.frontier.grow(hashes)
    tiles, tails = grow_tiles(state.size, state.tails, growth)
    return tiles, LogState(growth.frontier.size, growth.frontier, state.epoch, tails)


# --- drafts about the log itself ------------------------------------------------------------------


def stream_heads_draft(heads: Mapping[str, Head]) -> LeafDraft:
    """The leaf that pins where streams stand: written before an export of them, and when a run ends."""
    return LeafDraft(ACTION_STREAM_HEADS, LOG_KIND, LOG_KIND, extra={"heads": heads_detail(heads)})


def pinned_heads_draft(names: Iterable[str]) -> LeafDraft:
    """The same for streams that others may write to meanwhile: the heads are read when the leaf is placed."""
    return LeafDraft(ACTION_STREAM_HEADS, LOG_KIND, LOG_KIND, pins=tuple(names))


def heads_detail(heads: Mapping[str, Head]) -> list[dict[str, Any]]:
    """Heads as they stand in a leaf and in stream-heads.json: sorted by name."""
    return [
        {"name": name, "n": head.n, "seq": head.seq, "hash": head.hash.hex()}
        for name, head in sorted(heads.items())
    ]


def key_rotation_draft(statement: Mapping[str, Any]) -> LeafDraft:
    """The leaf of a change of the log's key; `statement` as made by `keys.rotation_statement`."""
    return LeafDraft(ACTION_KEY_ROTATED, LOG_KIND, LOG_KIND, extra={"rotation": dict(statement)})


def key_revocation_draft(fingerprint: str, reason_code: str) -> LeafDraft:
    """The leaf that withdraws a key: from here on its signatures count for nothing."""
    extra = {"fingerprint": fingerprint}
    return LeafDraft(ACTION_KEY_REVOKED, LOG_KIND, LOG_KIND, reason_code=reason_code, extra=extra)


def key_lost_draft(lost: str, successor: Mapping[str, Any], signed_to: int) -> LeafDraft:
    """The leaf by which a log whose key is lost goes on with another one.

    `successor` is `{name, fingerprint, vkey}`. Nothing of the lost key joins the two: its holder alone says
    so. `signed_to` is the size of the newest checkpoint that the lost key signed, 0 if none.
    """
    extra = {"fingerprint": lost, "successor": dict(successor), "signed_to": signed_to}
    return LeafDraft(ACTION_KEY_REVOKED, LOG_KIND, LOG_KIND, reason_code=KEY_LOST, extra=extra)


def restored_draft(old_size: int, old_root: bytes, reason_code: str | None = None) -> LeafDraft:
    """The leaf written first after a restore from backup; names the head that was known before."""
    extra = {"old_head": {"size": old_size, "root": old_root.hex()}}
    return LeafDraft(ACTION_RESTORED, LOG_KIND, LOG_KIND, reason_code=reason_code, extra=extra)


def verify_bodies(bodies: Iterable[bytes], frontier: Frontier | None = None) -> Frontier:
    """Hash stored leaves anew, in order, on top of `frontier`: its root is to equal the checkpoint's."""
    return (frontier or Frontier()).extend([sha256(b"\x00" + body).digest() for body in bodies])

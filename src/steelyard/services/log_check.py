"""Is the log whole, and does every row have its leaf? One pass over all leaves, hashed anew.

`log`: leaf rows are as many as the log says, hash to what they carry and up to the log's own root.
`leaves`: every stream counts without a gap, is linked, and ends where its head stands.
`state-leaf`: an object's version and head are those of its newest leaf; no row without a leaf, none lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

import msgspec

from steelyard.evidence.findings import CheckResult
from steelyard.evidence.leaf import Head
from steelyard.evidence.merkle import Frontier
from steelyard.model.ids import PREFIXES, render
from steelyard.store.audit import log_frontier, stored_leaves, versioned_objects
from steelyard.store.database import View
from steelyard.store.leaves import stream_heads

_GROUP = 4096
#: Kinds whose rows carry their heads, beside the declared ones.
_ROWS = frozenset(
    {
        "workload", "refusal", "user", "node", "observation", "release", "flag", "closing", "admission",
        "verification",
    }
)


class _Object(msgspec.Struct):
    kind: str
    id: str
    version_after: int | None


class _Entry(msgspec.Struct):
    name: str
    n: int
    prev: str | None
    prev_seq: int | None


class _Leaf(msgspec.Struct):
    seq: int
    object: _Object
    streams: list[_Entry]


_decode = msgspec.json.Decoder(_Leaf).decode


@dataclass(slots=True)
class _Pass:
    """What is known after some leaves."""

    log: CheckResult = field(default_factory=lambda: CheckResult("log"))
    leaves: CheckResult = field(default_factory=lambda: CheckResult("leaves"))
    frontier: Frontier = field(default_factory=Frontier)
    heads: dict[str, Head] = field(default_factory=dict)
    versions: dict[tuple[str, str], int | None] = field(default_factory=dict)

    def take(self, seq: int, stored: bytes, body: bytes, expected: int) -> bytes:
        digest = sha256(b"\x00" + body).digest()
        if seq != expected:
            self.log.add("leaf-missing", "leaf", expected)
        if digest != stored:
            self.log.add("leaf-changed", "leaf", seq)
        try:
            leaf = _decode(body)
        except msgspec.MsgspecError:
            self.log.add("leaf-malformed", "leaf", seq)
            return digest
        if leaf.seq != seq:
            self.log.add("leaf-misplaced", "leaf", seq)
        for entry in leaf.streams:
            self._stream(entry, seq, digest)
        key = (leaf.object.kind, leaf.object.id)
        if leaf.object.version_after is not None or key not in self.versions:
            self.versions[key] = leaf.object.version_after
        return digest

    def _stream(self, entry: _Entry, seq: int, digest: bytes) -> None:
        before = self.heads.get(entry.name)
        wanted = (0, None, None) if before is None else (before.n, before.seq, before.hash.hex())
        if (entry.n, entry.prev_seq, entry.prev) != wanted:
            self.leaves.add("stream-broken", "stream", entry.name, leaf=seq)
        self.heads[entry.name] = Head(entry.n + 1, seq, digest)


def check_log(view: View) -> list[CheckResult]:
    """The three checks, in one read view."""
    found = _Pass()
    origin, frontier = log_frontier(view)
    hashes: list[bytes] = []
    count = 0
    for leaf in stored_leaves(view):
        hashes.append(found.take(leaf.seq, leaf.hash, leaf.body, count))
        count = leaf.seq + 1
        if len(hashes) == _GROUP:
            found.frontier, hashes = found.frontier.extend(hashes), []
    found.frontier = found.frontier.extend(hashes)
    found.log.checked = found.leaves.checked = found.frontier.size
    if found.frontier.size != frontier.size:
        found.log.add("size-differs", "log", origin, size=frontier.size, leaves=found.frontier.size)
    elif found.frontier.root() != frontier.root():
        found.log.add("root-differs", "log", origin)
    _check_heads(view, found)
    return [found.log, found.leaves, _check_state(view, found)]


def _check_heads(view: View, found: _Pass) -> None:
    known = stream_heads(view)
    for name, head in known.items():
        if found.heads.get(name) != head:
            found.leaves.add("head-differs", "stream", name)
    for name in found.heads:
        if not name.startswith("object/") and name not in known:
            found.leaves.add("head-missing", "stream", name)


def _check_state(view: View, found: _Pass) -> CheckResult:
    result = CheckResult("state-leaf")
    seen: set[tuple[str, str]] = set()
    for row in versioned_objects(view):
        result.checked += 1
        name = render(row.kind, row.id) if row.kind in PREFIXES and isinstance(row.id, int) else str(row.id)
        key = (row.kind, name)
        seen.add(key)
        head = found.heads.get(f"object/{row.kind}/{name}")
        if head is None:
            result.add("row-without-leaf", row.kind, name, version=row.version)
        elif head != row.head:
            result.add("head-differs", row.kind, name, version=row.version)
        elif found.versions.get(key) != row.version:
            result.add("version-differs", row.kind, name, version=row.version, leaf=found.versions.get(key))
    for kind, name in found.versions:
        if (kind in _ROWS or kind not in PREFIXES) and kind != "log" and (kind, name) not in seen:
            result.add("leaf-without-row", kind, name)
    return result

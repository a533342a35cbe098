"""What changed, as live pages are told: read from the evidence log, where every change stands once.

Reading the log and not the writer's memory shows the changes of other servers on the same database, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import msgspec

from steelyard.model.organisation import Scope
from steelyard.store.leaves import bodies, log_size
from steelyard.store.store import Store

#: Leaves read at once. Of several about one object the last is told.
BATCH = 2000
#: Kinds that everybody may see change who is bound anywhere: they belong to no project.
SHARED = frozenset({"node", "device", "observation", "cluster"})


class _Object(msgspec.Struct):
    id: str
    kind: str
    version_after: int | None


class _Step(msgspec.Struct):
    to: str


class _Stream(msgspec.Struct):
    name: str


class _Leaf(msgspec.Struct):
    action: str
    object: _Object
    outcome: str
    seq: int
    streams: list[_Stream]
    transitions: list[_Step]
    ts: int


_decode = msgspec.json.Decoder(_Leaf).decode


@dataclass(frozen=True, slots=True)
class Change:
    """One object that changed. `phase` is the one it came to, None where it did not change."""

    seq: int
    at: int
    action: str
    kind: str
    id: str
    version: int | None
    phase: str | None
    project: str | None

    def visible(self, scope: Scope) -> bool:
        """True when a reader of this scope may be told."""
        if scope.projects is None or scope.allows(self.project):
            return True
        return bool(scope.projects) and self.kind in SHARED


def end_of_log(store: Store) -> int:
    """Where a reader that wants only what comes begins."""
    with store.read() as view:
        return log_size(view)


def read_changes(store: Store, after: int) -> tuple[list[Change], int]:
    """Changes from leaf `after` on, one an object, and where to read on."""
    with store.read() as view:
        end = min(log_size(view), after + BATCH)
        found = [_change(_decode(body)) for body in bodies(view, after, end)]
    return list(_last_of_each(found)), max(after, end)


def _last_of_each(changes: Iterable[Change]) -> Iterable[Change]:
    """In the order of the last change. A phase that was reached on the way is not lost with it."""
    known: dict[tuple[str, str], Change] = {}
    for change in changes:
        before = known.pop((change.kind, change.id), None)
        if before is not None and change.phase is None and before.phase is not None:
            change = replace(change, phase=before.phase)
        known[change.kind, change.id] = change
    return known.values()


def _change(leaf: _Leaf) -> Change:
    project = next((s.name.partition("/")[2] for s in leaf.streams if s.name.startswith("project/")), None)
    phase = leaf.transitions[-1].to if leaf.transitions else None
    return Change(
        leaf.seq,
        leaf.ts,
        leaf.action,
        leaf.object.kind,
        leaf.object.id,
        leaf.object.version_after,
        phase,
        project,
    )

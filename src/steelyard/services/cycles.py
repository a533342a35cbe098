"""Stored cycles of the scheduling loop, and their replay: the same `decide` on the same snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, runtime_checkable

import msgspec

from steelyard.identity.authorise import authorise, scope
from steelyard.model.errors import NotFoundError, UnavailableError
from steelyard.model.ids import EPOCH_MS, id_time, parse, render
from steelyard.model.organisation import Principal, Scope, Verb
from steelyard.model.policy import Policy
from steelyard.model.units import MILLISECOND
from steelyard.scheduling.decide import decide
from steelyard.scheduling.decisions import Decisions
from steelyard.scheduling.snapshot import Snapshot
from steelyard.services.basis import read_basis
from steelyard.store import cycles as repository
from steelyard.store.database import View
from steelyard.store.retention import cycles_purged_until
from steelyard.store.scoped import Record
from steelyard.store.store import Store

Json = dict[str, Any]
#: What a cycle did, and what a replay has to do again.
COMPARED = ("placements", "evictions", "holds", "dropped_holds", "refusals")
#: What is stored of it, and compared.
STORED = (*COMPARED, "choices", "growths")
MAX_DIFFERENCES = 50
EARLIEST = (EPOCH_MS + 1) * MILLISECOND  # no id is older, but for one that nobody gave
_encode = msgspec.json.Encoder(order="deterministic").encode


@runtime_checkable
class PastSnapshots(Protocol):
    """Makes the snapshot of a stored cycle anew."""

    def as_of(self, connection: View, cycle_id: int) -> tuple[Snapshot, Policy, int]:
        """What the cycle worked on, its policy and its instant."""
        ...


def decisions_body(decisions: Decisions) -> str:
    """What a cycle decided, as it is stored: lists and scalars in a fixed order."""
    return _encode({name: getattr(decisions, name) for name in STORED}).decode()


def cycle_list(
    store: Store, principal: Principal, cursor: str | None, limit: int
) -> tuple[list[Json], str | None]:
    """A page of cycles for a principal bound to the whole installation."""
    authorise(principal, Verb.VIEW, "cycle")
    with store.read() as view:
        return list_cycles(view, scope(principal, Verb.VIEW, "cycle"), cursor, limit)


def show(store: Store, principal: Principal, cycle_id: int) -> Json:
    """One cycle for a principal bound to the whole installation."""
    authorise(principal, Verb.VIEW, "cycle")
    with store.read() as view:
        return cycle_page(view, scope(principal, Verb.VIEW, "cycle"), cycle_id)


def replay_cycle(store: Store, principal: Principal, snapshots: object, cycle_id: int) -> Json:
    """The replay for a principal bound to the whole installation. Raises UnavailableError where the
    source of snapshots can't make past ones."""
    authorise(principal, Verb.VIEW, "cycle")
    with store.read() as view:
        _found(view, scope(principal, Verb.VIEW, "cycle"), cycle_id)
        if not isinstance(snapshots, PastSnapshots):
            raise UnavailableError("replay-not-served")
        return replay(view, scope(principal, Verb.VIEW, "cycle"), snapshots, cycle_id)


def list_cycles(
    connection: View, scope: Scope, cursor: str | None, limit: int
) -> tuple[list[Json], str | None]:
    """A page of cycles, the newest first, and the cursor of the next."""
    after = parse("cycle", cursor) if cursor else None
    rows = repository.list_cycles(connection, scope, after=after, limit=limit)
    shown = []
    for row in rows:
        decided = msgspec.json.decode(row["decisions_json"])
        counts = {name: len(decided.get(name) or ()) for name in COMPARED}
        shown.append({**_outline(row), "counts": counts})
    return shown, render("cycle", rows[-1]["id"]) if len(rows) == limit else None


def _outline(row: Record) -> Json:
    return {
        "id": render("cycle", row["id"]),
        "at": row["at"],
        "log_size": row["log_size"],
        "last_hash": None if row["last_hash"] is None else bytes(row["last_hash"]).hex(),
        "policy_version": row["policy_version"],
    }


def cycle_page(connection: View, scope: Scope, cycle_id: int) -> Json:
    """One cycle whole. Raises NotFoundError."""
    row = _found(connection, scope, cycle_id)
    if row is None:
        return _purged(cycle_id)
    return {
        **_outline(row),
        "purged": False,
        "observations": {name: view.observed_at for name, view in read_basis(row).clusters.items()},
        "decisions": msgspec.json.decode(row["decisions_json"]),
        "reasons": msgspec.json.decode(row["reasons_json"]),
    }


def _purged(cycle_id: int) -> Json:
    """A cycle of which nothing is kept any more but what leaves say of it."""
    unknown = ("at", "log_size", "last_hash", "policy_version", "observations", "decisions", "reasons")
    return {"id": render("cycle", cycle_id), "purged": True, **dict.fromkeys(unknown)}


def _found(connection: View, scope: Scope, cycle_id: int) -> Record | None:
    """The row; None for one that is older than what is kept. Raises NotFoundError."""
    row = repository.get_cycle(connection, scope, cycle_id)
    if row is None and EARLIEST <= id_time(cycle_id) < cycles_purged_until(connection):
        return None
    if row is None:
        raise NotFoundError("not-found", kind="cycle", id=render("cycle", cycle_id))
    return row


def replay(connection: View, scope: Scope, snapshots: PastSnapshots, cycle_id: int) -> Json:
    """Decide the cycle again from what it was made of, and compare. `same` is null where that was purged."""
    row = _found(connection, scope, cycle_id)
    purged = cycles_purged_until(connection)
    if row is None or any(since < purged for _, since, _ in read_basis(row).holds):
        return {"same": None, "differences": [], "count": 0, "purged": True}
    snapshot, policy, now = snapshots.as_of(connection, cycle_id)
    again = msgspec.json.decode(decisions_body(decide(snapshot, policy, now)))
    differences = list(compare(msgspec.json.decode(row["decisions_json"]), again))
    shown = differences[:MAX_DIFFERENCES]
    return {"same": not differences, "differences": shown, "count": len(differences), "purged": False}


def compare(stored: Json, again: Json) -> Iterable[Json]:
    """Entries that are in one and not in the other."""
    for name in STORED:
        before = {_encode(_told(entry)): entry for entry in stored.get(name) or ()}
        after = {_encode(_told(entry)): entry for entry in again.get(name) or ()}
        for key in sorted(before.keys() - after.keys()):
            yield {"part": name, "stored": before[key], "again": None}
        for key in sorted(after.keys() - before.keys()):
            yield {"part": name, "stored": None, "again": after[key]}


def _told(entry: Json) -> Json:
    """Without what cycles of earlier versions do not have, where it says nothing."""
    return {key: value for key, value in entry.items() if value or key not in ("members", "limit")}

"""What a stored cycle rested on that stands nowhere else: enough, with the log, to make its snapshot anew.

`log_size` of a cycle's row is the first leaf that the loop had not yet looked at; its own leaves up to
`written` it knew, too. Of the rest of the memory only what decisions depend on is kept: when clusters were
observed, which holds stood, which pools were shut and what was verified in them, and the shapes that were
looked at too lately to look for victims again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import msgspec

from steelyard.model.policy import QUEUE_TREE
from steelyard.scheduling import EXPLAIN_EVERY, ClusterView, Decisions, Snapshot
from steelyard.services.price_lists import instant_of
from steelyard.services.shapes import shape_id
from steelyard.store.scoped import Record


@dataclass(frozen=True, slots=True)
class Basis:
    """`holds`: (attempt, when its hold was made, whether it still wanted it). `looked`: an
    instant and the ids of the shapes looked at then. `activated`: attempts whose hold was made while they
    stood by, and that were wanted by then."""

    clusters: dict[str, ClusterView] = field(default_factory=dict)
    holds: tuple[tuple[int, int, bool], ...] = ()
    looked: tuple[tuple[int, tuple[int, ...]], ...] = ()
    written: int = 0
    activated: tuple[int, ...] = ()
    shut: dict[str, dict[str, str | int | None]] = field(default_factory=dict)  # pool → why
    verified: dict[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)  # pool → kind, model
    history: int = 0  # instant of the sum of what was used lately; 0: there was none
    prices: int = 0  # instant of the price list; 0: there was none
    run_times: int = 0  # instant at which run times were learned; 0: none were


_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Basis).decode


def basis_body(snapshot: Snapshot, decisions: Decisions, written: int) -> str:
    """As it is stored with the cycle. `written`: the size of the log as this server had last committed it."""
    holds = tuple((hold.attempt_id, hold.since, hold.alive) for _, hold in sorted(snapshot.holds.items()))
    activated = tuple(
        hold.attempt_id
        for _, hold in sorted(snapshot.holds.items())
        if hold.item.guaranteed and not hold.item.standby
    )
    shut = {name: dict(pool.shut) for name, pool in snapshot.pools.items() if pool.shut is not None}
    verified = {name: tuple(sorted(pool.verified)) for name, pool in snapshot.pools.items() if pool.verified}
    basis = Basis(
        dict(snapshot.clusters), holds, _looked(snapshot, decisions), written, activated, shut, verified,
        snapshot.history.at, instant_of(snapshot.prices), snapshot.run_times.version,
    )  # fmt: skip
    return _encode(basis).decode()


def _looked(snapshot: Snapshot, decisions: Decisions) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """Only where it matters: something of a lower priority runs in the shape's queue, or anywhere for what
    is guaranteed, or another queue has borrowed, be it by what the cycle itself started or kept a place for.
    """
    lately = {key: at for key, at in snapshot.last_looked.items() if decisions.now - at < EXPLAIN_EVERY}
    if not lately:
        return ()
    lowest: dict[str, int] = {}
    having = [(attempt.queue, attempt.priority) for attempt in snapshot.running.values()]
    kept = (*snapshot.holds.values(), *decisions.holds)
    having += [(hold.shape.queue, hold.shape.priority) for hold in kept]
    for queue, priority in having:
        lowest[queue] = min(priority, lowest.get(queue, priority))
    borrowers = _borrowers(snapshot, decisions, lowest)
    found: dict[int, list[int]] = {}
    waiting = {group.shape.key: group.shape for group in snapshot.pending}
    waiting.update((hold.shape.key, hold.shape) for hold in snapshot.holds.values())
    guaranteed = {group.shape.key for group in snapshot.pending if any(h.guaranteed for h in group.heads)}
    guaranteed |= {hold.shape.key for hold in snapshot.holds.values() if hold.item.guaranteed}
    anywhere = min(lowest.values(), default=None)
    for shape in waiting.values():
        at = lately.get(shape.key)
        below = lowest.get(shape.queue, shape.priority)
        if shape.key in guaranteed and anywhere is not None:
            below = anywhere
        if at is not None and (below < shape.priority or borrowers - {shape.queue}):
            found.setdefault(at, []).append(shape_id(shape.key))
    return tuple((at, tuple(sorted(ids))) for at, ids in sorted(found.items()))


def _borrowers(snapshot: Snapshot, decisions: Decisions, queues: Iterable[str]) -> set[str]:
    """Those of the queues that use more than they own of anything, with all that the cycle added: at some
    moment of it they may have. What it gave back is not counted, so this is an upper bound."""
    tree = snapshot.trees.get(QUEUE_TREE)
    if tree is None:
        return set()
    known = {name for name in queues if name in tree.nodes}
    usage = Counter(snapshot.usage.get(QUEUE_TREE, {}))
    added = [made.charges for made in decisions.placements if not made.from_hold]
    added += [hold.charges for hold in decisions.holds]
    for charge in (charge for charges in added for charge in charges):
        if charge.tree == QUEUE_TREE:
            usage[charge.node, charge.subject] += charge.quantity
    return {
        name
        for (name, subject), used in usage.items()
        if name in known and tree.governs(subject) and used > tree.subtree(name, subject)
    }


def read_basis(row: Record) -> Basis:
    """The basis of a cycle's row."""
    return _decode(row["observations_json"])

"""Why one attempt comes before another: the terms of the order by name, the first that differs decides.

The answer is for the two alone: whose turn it would be if nobody else waited. It is made of the same terms
as the order itself (`turns`), so that it can't differ from it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from steelyard.model.policy import QUEUE_TREE, Policy, Precedence, QueueOrder
from steelyard.model.units import SECOND
from steelyard.model.workloads import Shape
from steelyard.scheduling.history import Past
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.precedence import UNKNOWN, size
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.share import WHOLE, Share, shown
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.turns import Turns
from steelyard.scheduling.views import PendingItem

_SHOWN = WHOLE // 10**6

Waits: TypeAlias = tuple[Shape, PendingItem]


class FactorName(StrEnum):
    """What the order looks at."""

    GUARANTEED = "guaranteed"  # within a service's guarantee
    SHARE = "share"  # millionths above quota, of two siblings in the queue tree; None: infinite
    BORROWS = "borrows"  # 1: it has to borrow
    BAND = "band"  # the priority among which it competes
    DUE = "due"  # 1: it has waited half of its queue's starvation bound
    PROJECT_USE = "project-use"  # of what the queue used lately, in millionths by weight
    USER_USE = "user-use"
    REMAINING = "remaining"  # time × devices still to be done at most, in device-seconds; None: not known
    SERVED_LEVEL = "served-level"  # of what earlier attempts were given
    TIME = "time"  # submitted, and by how much it counts as younger (µs)
    ID = "id"


@dataclass(frozen=True, slots=True)
class Factor:
    """One term of both. `first`: −1 the first goes before, 1 the second, 0 they are the same in it.
    `nodes`: the siblings of the queue tree that are compared."""

    name: FactorName
    first: int
    a: int | None
    b: int | None
    nodes: tuple[str, str] | None = None


def factors(snapshot: Snapshot, policy: Policy, now: int, a: Waits, b: Waits) -> tuple[Factor, ...]:
    """All terms in the order in which they are looked at, up to the first that differs."""
    return compare(turns_of(snapshot, policy, now), a, b)


def turns_of(snapshot: Snapshot, policy: Policy, now: int) -> Turns:
    """The order's terms before anything is decided, to compare many."""
    tree = snapshot.trees.get(QUEUE_TREE)
    rules, ledger = Rules(policy, tree), Ledger(snapshot.trees, snapshot.usage)
    ledger.keep(snapshot.holds.values(), snapshot.running)
    return Turns(snapshot, policy, now, rules, ledger, Past(snapshot.history, policy.fairness, tree))


def compare(turns: Turns, a: Waits, b: Waits) -> tuple[Factor, ...]:
    """See `factors`."""
    found: list[Factor] = []
    for factor in _within(turns, a, b) if a[0].queue == b[0].queue else _between(turns, a, b):
        found.append(factor)
        if factor.first:
            break
    return tuple(found)


def decides(found: tuple[Factor, ...]) -> Factor | None:
    """The one that puts one of them first; None: they are the same attempt."""
    return found[-1] if found and found[-1].first else None


def _within(turns: Turns, a: Waits, b: Waits) -> Iterable[Factor]:
    yield _guaranteed(a, b)
    yield _band(turns, a, b)
    due = [turns.is_due(shape.queue, item) for shape, item in (a, b)]
    yield _factor(FactorName.DUE, not due[0], not due[1], int(due[0]), int(due[1]))
    if turns.past.counts:
        uses = turns.uses(a[0]), turns.uses(b[0])
        for name, mine, other in zip((FactorName.PROJECT_USE, FactorName.USER_USE), *uses, strict=True):
            yield _factor(name, mine, other, mine // _SHOWN, other // _SHOWN)
    yield from _size(turns, a, b)
    yield from _last(turns, a, b)


def _size(turns: Turns, a: Waits, b: Waits) -> Iterable[Factor]:
    precedence = turns.precedence(a[0].queue)
    if precedence is Precedence.FIRST_COME:
        return
    mine, other = size(precedence, *a), size(precedence, *b)
    if precedence is Precedence.LEAST_SERVED:
        yield _factor(FactorName.SERVED_LEVEL, mine, other, mine, other)
        return
    yield _factor(FactorName.REMAINING, mine, other, _device_seconds(mine), _device_seconds(other))


def _device_seconds(size: int) -> int | None:
    return None if size == UNKNOWN else size // (1000 * SECOND)


def _between(turns: Turns, a: Waits, b: Waits) -> Iterable[Factor]:
    yield _guaranteed(a, b)
    nodes = _siblings(turns, a[0].queue, b[0].queue)
    ranks = turns.rank(nodes[0], *a), turns.rank(nodes[1], *b)
    mine, other = ranks[0][1], ranks[1][1]
    if turns.policy.order is QueueOrder.FAIR_SHARE:
        yield _factor(FactorName.SHARE, mine, other, shown(mine), shown(other), nodes)
    else:
        yield _factor(FactorName.BORROWS, mine, other, mine[1], other[1], nodes)
    yield _band(turns, a, b)
    yield from _last(turns, a, b)


def _siblings(turns: Turns, a: str, b: str) -> tuple[str, str]:
    """Where the paths of two queues part, looking down from the root."""
    tree = turns.tree
    paths = [
        tuple(reversed(tree.path(queue))) if tree is not None and queue in tree.nodes else (queue,)
        for queue in (a, b)
    ]
    shared = 0
    while shared < min(map(len, paths)) - 1 and paths[0][shared] == paths[1][shared]:
        shared += 1
    return paths[0][shared], paths[1][shared]


def _guaranteed(a: Waits, b: Waits) -> Factor:
    mine, other = a[1].guaranteed, b[1].guaranteed
    return _factor(FactorName.GUARANTEED, not mine, not other, int(mine), int(other))


def _band(turns: Turns, a: Waits, b: Waits) -> Factor:
    mine, other = turns.band(a[0])[0], turns.band(b[0])[0]
    return _factor(FactorName.BAND, -mine, -other, mine, other)


def _last(turns: Turns, a: Waits, b: Waits) -> Iterable[Factor]:
    times = [item.submitted + turns.band(shape)[1] for shape, item in (a, b)]
    yield _factor(FactorName.TIME, times[0], times[1], times[0], times[1])
    ids = [(item.workload_id, item.attempt_id) for _, item in (a, b)]
    yield _factor(FactorName.ID, ids[0], ids[1], ids[0][0], ids[1][0])


def _factor(
    name: FactorName,
    mine: int | tuple[int, ...] | Share,
    other: int | tuple[int, ...] | Share,
    a: int | None,
    b: int | None,
    nodes: tuple[str, str] | None = None,
) -> Factor:
    """Smaller goes first."""
    return Factor(name, (mine > other) - (mine < other), a, b, nodes)  # type: ignore[operator]

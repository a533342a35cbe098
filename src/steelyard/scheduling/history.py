"""What was used lately, decayed by half-life: of whom, in which queue, of what.

Sums are taken on a fixed grid of instants (multiples of `Fairness.sampling`): at each of them
`u ← u · r + used · (1 − r)`, where `used` is what was held on average since the sum before, exactly, and
r = 0.5^(time since it ÷ half-life). What starts in between is charged an entry penalty at once,
(1 − 0.5^(sampling ÷ half-life)) of its request, as if it ran for a whole step; the next sum replaces it by
what was really used. So a burst can't slip through between two sums (after Kueue's admission fair sharing,
design/queueing.md 1.1, whose samples are of instants).

Amounts are integers in millionths of the class's unit. Nothing here knows a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import isqrt
from typing import Any, TypeAlias

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE, Fairness
from steelyard.scheduling.memo import MOST_KEPT
from steelyard.scheduling.quota import QuotaTree, total_usage
from steelyard.scheduling.views import Charge

#: An amount of one unit of a class.
UNIT = 10**6
#: A factor of one.
ONE = 1 << 48
_BITS = 40  # of the exponent's fraction

#: (queue, project, user; "" where it is not told apart)
Who: TypeAlias = tuple[str, str, str]
#: (queue, project, user, subject)
Used: TypeAlias = tuple[str, str, str, str]
_Keys: TypeAlias = tuple[tuple[Used, ...], tuple[tuple[str, str], ...]]
_Sums: TypeAlias = list[tuple[Used, int]]
_Nodes: TypeAlias = list[tuple[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class History:
    """`own`: decayed use by whom it was, as of the grid's instant `at`. What follows from it: `nodes` of the
    queue tree by (node, subject), and `sums` of each queue, project and user (`""`: all of them).
    `started`: what was placed since `at`, in the class's unit."""

    at: int = 0
    own: Mapping[Used, int] = field(default_factory=dict)
    nodes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    sums: Mapping[Used, int] = field(default_factory=dict)
    started: Mapping[Used, int] = field(default_factory=dict)


NOTHING_USED = History()


def history_of(
    tree: QuotaTree | None, at: int, own: Mapping[Used, int], started: Mapping[Used, int] | None = None
) -> History:
    """The history with what follows from it in this queue tree."""
    sums: dict[Used, int] = {}
    for (queue, project, user, subject), amount in sorted(own.items()):
        for key in {(queue, "", "", subject), (queue, project, "", subject), (queue, project, user, subject)}:
            sums[key] = sums.get(key, 0) + amount
    queues = [(key[0], key[3], amount) for key, amount in sums.items() if not key[1]]
    nodes = total_usage(_millionths(tree), queues) if tree is not None else {}
    return History(at, own, nodes, sums, started or {})


def start(started: dict[Used, int], who: Who, charges: Iterable[Charge]) -> None:
    """Adds one more to what has started."""
    for item in charges:
        if item.tree == QUEUE_TREE:
            key = (*who, item.subject)
            started[key] = started.get(key, 0) + item.quantity


def decayed(
    own: Mapping[Used, int], used: Mapping[Used, int], elapsed: int, half_life: int
) -> dict[Used, int]:
    """The next sum. `used`: quantity × µs held in the `elapsed` µs since the last one. What has faded to
    nothing is left out."""
    kept = retained(elapsed, half_life)
    following = {}
    for key in sorted({*own, *used}):
        amount = own.get(key, 0) * kept + used.get(key, 0) * UNIT * (ONE - kept) // elapsed
        if amount >= ONE:
            following[key] = amount // ONE
    return following


def penalty(fairness: Fairness) -> int:
    """What is charged at once of a request, in parts of `ONE`; 0 where the past does not count."""
    if not fairness.half_life:
        return 0
    return ONE - retained(fairness.sampling, fairness.half_life)


@lru_cache(maxsize=64)
def retained(elapsed: int, half_life: int) -> int:
    """0.5^(elapsed ÷ half_life) in parts of `ONE`, by square roots of integers: the same everywhere."""
    whole, rest = divmod(elapsed, half_life)
    if whole >= _BITS:
        return 0
    fraction = (rest << _BITS) // half_life
    factor, root = ONE, ONE >> 1
    for bit in reversed(range(_BITS)):
        root = isqrt(root * ONE)  # 0.5^(1/2), 0.5^(1/4), …
        if fraction >> bit & 1:
            factor = factor * root // ONE
    return factor >> whole


def _millionths(tree: QuotaTree) -> QuotaTree:
    """The tree with its limits in the history's unit, so that what is kept back is kept back there, too."""
    if not any(limit.lending_limit is not None for limit in tree.limits.values()):
        return tree  # then all of the use flows up, whatever the limits are
    limits = {
        key: replace(
            limit,
            nominal=limit.nominal * UNIT,
            borrowing_limit=None if limit.borrowing_limit is None else limit.borrowing_limit * UNIT,
            lending_limit=None if limit.lending_limit is None else limit.lending_limit * UNIT,
        )
        for key, limit in tree.limits.items()
    }
    return QuotaTree(tree.nodes, limits)


class Past:
    """What counts of the past in one cycle: the decayed use, and the penalty of what started since."""

    def __init__(self, history: History, fairness: Fairness, tree: QuotaTree | None) -> None:
        self.counts = fairness.half_life > 0
        self._history = history
        self.penalty = penalty(fairness)  # the part of the next sum that what happens until then has
        self._tree = tree
        self._nodes: dict[tuple[str, str], int] = {}  # of what has started, in parts of ONE ÷ UNIT
        self._sums: dict[Used, int] = {}
        self._keys: dict[tuple[Who, str], _Keys] = self._kept("past")
        kept = self._kept(f"past/{self.penalty}")
        #: By whom it is, and the id of the charges, which are held here.
        self._amounts: dict[tuple[Who, int], tuple[object, _Sums, _Nodes]] = kept
        self.starts: dict[str, int] = {}  # by queue, how many have started in this cycle
        if not self.counts:
            self._history = History()
        else:
            for (queue, project, user, subject), quantity in history.started.items():
                sums, nodes = self._of((queue, project, user), subject, quantity)
                self._add(sums, nodes)

    def start(self, who: Who, charges: tuple[Charge, ...]) -> None:
        """Something is placed in this cycle."""
        if not self.counts:
            return
        self.starts[who[0]] = self.starts.get(who[0], 0) + 1
        known = self._amounts.get((who, id(charges)))
        if known is None:
            known = self._amounts[who, id(charges)] = charges, *self._of_all(who, charges)
        self._add(*known[1:])

    def _add(self, sums: _Sums, nodes: _Nodes) -> None:
        known, by_node = self._sums, self._nodes
        for used, amount in sums:
            known[used] = known.get(used, 0) + amount
        for key, amount in nodes:
            by_node[key] = by_node.get(key, 0) + amount

    def _of_all(self, who: Who, charges: Iterable[Charge]) -> tuple[_Sums, _Nodes]:
        each = [self._of(who, item.subject, item.quantity) for item in charges if item.tree == QUEUE_TREE]
        return [one for sums, _ in each for one in sums], [one for _, nodes in each for one in nodes]

    def _of(self, who: Who, subject: str, quantity: int) -> tuple[_Sums, _Nodes]:
        """What a charge adds, and to what."""
        keys = self._keys.get((who, subject))
        if keys is None:
            keys = self._keys[who, subject] = self._keys_of(who, subject)
        amount = quantity * UNIT * self.penalty // ONE
        return [(used, amount) for used in keys[0]], [(key, amount) for key in keys[1]]

    def _keys_of(self, who: Who, subject: str) -> _Keys:
        """What a charge counts in: of its queue, project and user; of the queue and all above it. People are
        measured by classes, nodes by what limits are on: nobody asks for anything else."""
        queue, project, user = who
        sums: list[Used] = []
        if not subject.startswith(FLAVOR_PREFIX):
            sums.append((queue, "", "", subject))
            if project:
                sums.append((queue, project, "", subject))
            if user:
                sums.append((queue, project, user, subject))
        tree = self._tree
        is_limited = tree is not None and subject in tree.subjects and queue in tree.nodes
        path = tree.path(queue) if tree is not None and is_limited else ()
        return (*sums,), tuple((node, subject) for node in path)

    def _kept(self, name: str) -> dict[Any, Any]:
        """What was made by earlier cycles, beside the tree that it follows from."""
        if self._tree is None:
            return {}
        kept = self._tree.memory.get(name)
        if not isinstance(kept, dict) or len(kept) > MOST_KEPT:
            kept = self._tree.memory[name] = {}
        return kept

    def node(self, node: str, subject: str) -> int:
        """Of a queue or cohort, in millionths."""
        return self.at((node, subject))

    def at(self, key: tuple[str, str]) -> int:
        """As `node`, of (node, subject)."""
        return self._history.nodes.get(key, 0) + self._nodes.get(key, 0)

    def of(self, queue: str, project: str, user: str, subject: str) -> int:
        """Of a project or user in a queue (`""`: all of them), in millionths."""
        key = (queue, project, user, subject)
        return self._history.sums.get(key, 0) + self._sums.get(key, 0)

    def before(self, queue: str, subject: str) -> int:
        """Of a queue as the cycle found it: what parts of it are measured by while it goes on."""
        return self._history.sums.get((queue, "", "", subject), 0)

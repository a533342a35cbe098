"""An attempt's place among those that wait in its queue, and its queue's place among its siblings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE, USUAL_WEIGHT, Policy, Precedence, QueueOrder
from steelyard.model.resources import ACCELERATORS, DeviceClass
from steelyard.model.workloads import Shape
from steelyard.scheduling.history import Past
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.memo import MOST_KEPT
from steelyard.scheduling.precedence import size
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.share import NONE, WHOLE, Asking, Share, Shares
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.views import PendingItem

#: guaranteed no/yes, −band, due no/yes, use of the project, of the user, size, time, workload, attempt
Key: TypeAlias = tuple[bool, int, bool, int, int, int, int, int, int]
#: guaranteed no/yes, share above quota or whether it borrows, −band, time, workload, attempt
Rank: TypeAlias = tuple[bool, Share, int, int, int, int]


def band_of(policy: Policy, shape: Shape) -> tuple[int, int]:
    """The priority among which a shape competes, and by how much it counts as younger there (µs)."""
    found = policy.classes.get(shape.priority_class or "")
    if found is None or not found.ageing:
        return shape.priority, 0
    highest = max(each.value for each in policy.classes.values()) if found.ages_to is None else found.ages_to
    return max(shape.priority, highest), found.ageing


@dataclass(frozen=True, slots=True)
class _Terms:
    """What follows from a shape by the policy and the tree."""

    shape: Shape
    band: int
    ageing: int
    asked: Mapping[str, int]
    who: tuple[str, str, str, str]  # queue, project, user, the class it is measured by
    precedence: Precedence
    at: dict[str, Asking | None] = field(default_factory=dict)  # what it would add to a node


@dataclass(frozen=True, slots=True)
class _Kept:
    basis: tuple[object, ...]
    terms: dict[str, _Terms]


class Turns:
    """The order's terms for one cycle. `ledger` and `past` are those of the cycle: shares follow them."""

    def __init__(
        self, snapshot: Snapshot, policy: Policy, now: int, rules: Rules, ledger: Ledger, past: Past
    ) -> None:
        self.policy = policy
        self.now = now
        self.past = past
        self.ledger = ledger
        self.tree = snapshot.trees.get(QUEUE_TREE)
        self.shares = Shares(self.tree, rules, snapshot.flavors, past) if self.tree is not None else None
        self.fair = policy.order is QueueOrder.FAIR_SHARE
        self.strict = policy.order is QueueOrder.STRICT_PRIORITY
        self._rules = rules
        self._flavors = snapshot.flavors
        self._terms = self._kept()
        self._uses: dict[tuple[str, str, str, str], tuple[int, tuple[int, int]]] = {}
        self._bounds: dict[str, int] = {}

    def _kept(self) -> dict[str, _Terms]:
        """What was made of shapes by the same tree, flavors and policy, beside the tree."""
        if self.tree is None:
            return {}
        basis = (self._flavors, self.policy)
        kept = self.tree.memory.get("terms")
        if not isinstance(kept, _Kept) or any(a is not b for a, b in zip(kept.basis, basis, strict=True)):
            kept = self.tree.memory["terms"] = _Kept(basis, {})
        elif len(kept.terms) > MOST_KEPT:
            kept.terms.clear()
        return kept.terms

    def terms(self, shape: Shape) -> _Terms:
        """What follows from the shape alone."""
        known = self._terms.get(shape.key)
        if known is None or (known.shape is not shape and known.shape != shape):
            band, ageing = band_of(self.policy, shape)
            who = (shape.queue, shape.project, shape.user or "", primary_class(shape))
            precedence = self._rules.of(shape.queue).precedence
            known = self._terms[shape.key] = _Terms(shape, band, ageing, self._asks(shape), who, precedence)
        return known

    def band(self, shape: Shape) -> tuple[int, int]:
        """See `band_of`."""
        terms = self.terms(shape)
        return terms.band, terms.ageing

    def is_due(self, queue: str, item: PendingItem) -> bool:
        """True when it has waited half of the queue's starvation bound, since it was last requeued."""
        known = self._bounds.get(queue)
        if known is None:
            known = self._bounds[queue] = self.now - self._rules.of(queue).starvation_bound // 2
        return item.submitted <= known and item.eligible_at <= known

    def key(self, shape: Shape, item: PendingItem) -> Key:
        """Within its queue."""
        terms = self.terms(shape)
        project, user = self._used(terms) if self.past.counts else (0, 0)
        due = self.is_due(shape.queue, item)
        still = 0
        if terms.precedence is not Precedence.FIRST_COME:
            still = size(terms.precedence, shape, item)
        return (
            not item.guaranteed, -terms.band, not due, project, user, still,
            item.submitted + terms.ageing, item.workload_id, item.attempt_id,
        )  # fmt: skip

    def precedence(self, queue: str) -> Precedence:
        """Which of equals goes first there."""
        return self._rules.of(queue).precedence

    def uses(self, shape: Shape) -> tuple[int, int]:
        """The part of its project, and of its user, of what the queue has used lately of the class it asks
        for, each by its weight. Grows while a cycle goes on, and never falls."""
        return self._used(self.terms(shape)) if self.past.counts else (0, 0)

    def _used(self, terms: _Terms) -> tuple[int, int]:
        """Made anew only when something of the queue has started."""
        past, who = self.past, terms.who
        starts = past.starts.get(who[0], 0)
        known = self._uses.get(who)
        if known is None or known[0] != starts:
            queue, name, user, subject = who
            whole = max(1, past.before(queue, subject))
            project = past.of(queue, name, "", subject)
            own = past.of(queue, name, user, subject) if user else 0
            weights = self.policy.weights
            known = self._uses[who] = (
                starts,
                (
                    _weighed(project, whole, weights.get(f"project/{name}", USUAL_WEIGHT)),
                    _weighed(own, whole, weights.get(f"user/{user}", USUAL_WEIGHT)),
                ),
            )
        return known[1]

    def asked(self, shape: Shape) -> Mapping[str, int]:
        """What the shape would add to its queue, by governed subject: each flavor it allows as if it were
        the one."""
        return self.terms(shape).asked

    def _asks(self, shape: Shape) -> dict[str, int]:
        subjects = self.tree.subjects if self.tree is not None else frozenset()
        asks: dict[str, int] = {}
        for cls, amount in shape.totals().items():
            if cls.value in subjects:
                asks[cls.value] = amount
        for subject in subjects:
            flavor = self._flavors.get(subject.removeprefix(FLAVOR_PREFIX))
            if flavor is None or not subject.startswith(FLAVOR_PREFIX):
                continue
            amount = sum(
                request.amount(flavor.device_class) * count
                for _, count, request in shape.roles
                if not request.flavors or flavor.name in request.flavors
                or flavor.device_class not in ACCELERATORS
            )
            if amount:
                asks[subject] = amount
        return asks

    def rank(self, node: str, shape: Shape, item: PendingItem) -> Rank:
        """Of a queue or cohort among its siblings, with this attempt as its first."""
        terms, share = self.terms(shape), NONE
        if self.shares is not None and not self.strict:
            if node not in terms.at:
                terms.at[node] = self._asking(self.shares, node, terms)
            asking = terms.at[node]
            if asking is not None:
                share = self._standing(self.shares, node, terms, asking, item)
        time = item.submitted + terms.ageing
        return (not item.guaranteed, share, -terms.band, time, item.workload_id, item.attempt_id)

    def _asking(self, shares: Shares, node: str, terms: _Terms) -> Asking | None:
        """None where nothing is compared: of a root, and of what is not in the tree."""
        nodes, queue = shares.tree.nodes, terms.shape.queue
        if node not in nodes or nodes[node].parent is None or queue not in nodes:
            return None
        return shares.asking(queue, node, terms.asked)

    def _standing(
        self, shares: Shares, node: str, terms: _Terms, asking: Asking, item: PendingItem
    ) -> Share:
        usage = self.ledger.worlds[-1][QUEUE_TREE]
        if self.fair and self.is_due(terms.shape.queue, item):
            return min(shares.share(usage, node), shares.share(usage, node, only_now=True))
        added = shares.added(usage, asking)
        if self.fair:
            return shares.share(usage, node, added)
        return (0, 1) if shares.borrows(usage, node, added) else NONE


def primary_class(shape: Shape) -> str:
    """The class a shape is measured by: its accelerator, else the processor, else what it asks for."""
    totals = [cls for cls, amount in shape.totals().items() if amount]
    for cls in (*ACCELERATORS, DeviceClass.CPU):
        if cls in totals:
            return cls.value
    return min((cls.value for cls in totals), default=DeviceClass.CPU.value)


def _weighed(amount: int, whole: int, weight: int) -> int:
    """Weight 0 counts as the smallest there is: it comes last, and among such the use decides."""
    part = amount * WHOLE * USUAL_WEIGHT // (whole * (weight or USUAL_WEIGHT))
    return part if weight else part + WHOLE**2

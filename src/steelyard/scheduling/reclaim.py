"""Whose work may be stopped for an attempt, and by which rule.

- `within-queue`: a strictly lower priority of its own queue.
- `guarantee`: what a service is guaranteed is taken back from any queue, from a strictly lower priority.
- `reclaim`: nominal quota of its own side that others of the cohort borrowed, as the queue's `Reclaim` says.
- `reclaim-while-borrowing`: it would borrow itself; only priorities below its own and below `borrow_below`,
  and nothing of what the other queue owns.
- `fair-share`: it would borrow itself and the order is by fair share: from a side whose share is still not
  below its own when all victims are gone, and would be above it again with any one of them.

Two queues meet at their lowest common ancestor; the *sides* are that ancestor's children towards each. A
queue loses only what it has borrowed, with every cohort up to its side, of the very subjects for which the
attempt would be short with the victim back: who has borrowed CPU loses no GPU for it. That is judged on the
final set, after whoever may stay was put back, with each victim back alone; so whoever was evicted finds its
own side above its quota, or its share above the evictor's, and can't evict it in turn (after Kueue,
design/queueing.md 1.1, where the set before the fill-back is judged, and two evict each other for ever).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.model.policy import FLAVOR_PREFIX, QUEUE_TREE, UNBOUNDED, USUAL_WEIGHT, QueueOrder, Reclaim
from steelyard.scheduling.bundles import leaving_view, staying_view
from steelyard.scheduling.contention import contended
from steelyard.scheduling.context import Context
from steelyard.scheduling.decisions import (
    BORROWING,
    FAIR_SHARE,
    GUARANTEE,
    RECLAIM,
    WITHIN_QUEUE,
    ComparedShares,
)
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.quota import QuotaTree, Usage, charge, potential
from steelyard.scheduling.share import WHOLE
from steelyard.scheduling.views import Charge, PendingItem, RunningView

#: Who goes first: a place that is only kept, what others borrowed, the queue's own lower priorities, and last
#: what others borrowed where the queue would own its part only once its own made room. Members without whom
#: their gang goes on (`_PART`) go before all that would end.
_KEPT, _BORROWED, _OWN, _LATE = 0, 3, 4, 6
_PART = {_BORROWED: 1, _OWN: 2, _LATE: 5}
#: Rules between queues: judged on what is borrowed.
_BETWEEN = frozenset({RECLAIM, BORROWING, FAIR_SHARE})
_TIERS = {WITHIN_QUEUE: _OWN, GUARANTEE: _OWN}
#: Of a side that borrows at weight 0: above any other.
_INFINITE = UNBOUNDED
#: Shares as they are shown: parts of a million.
_SHOWN = WHOLE // 1_000_000


@dataclass(frozen=True, slots=True)
class Tie:
    """How another queue stands to the attempt's."""

    near: str  # the attempt's side
    path: tuple[str, ...]  # the other queue and its cohorts; the last one is its side
    parent: str  # where both meet
    borrowed: tuple[str, ...]  # contended subjects of which it has more than it owns
    owned: frozenset[str]  # those of them that the attempt's side would own, if its own made room


@dataclass(frozen=True, slots=True)
class Verdict:
    """By which rule somebody has to go, once the whole set is known, and the numbers where shares decided."""

    rule: str
    shares: ComparedShares | None = None


@dataclass(frozen=True, slots=True)
class Loss:
    """A victim: the attempt (or what a hold keeps, which runs nowhere yet) and the rule it may fall under.

    Of an elastic `gang` each member that it can lose is one, and what is left of it another (see `bundles`):
    each goes only with all in `after`, given by the ids of their views.
    """

    view: RunningView
    rule: str
    tier: tuple[int, int]  # the smaller goes first
    is_hold: bool = False
    gang: RunningView | None = None
    after: tuple[int, ...] = ()

    @property
    def attempt_id(self) -> int:
        """Of the attempt that loses it."""
        return self.view.attempt_id if self.gang is None else self.gang.attempt_id

    @property
    def is_part(self) -> bool:
        """True when the attempt goes on without it."""
        return self.gang is not None and self.view.attempt_id != self.gang.attempt_id


class Reach:
    """What one attempt may take. Made anew for each search; reads the ledger as it stands when asked."""

    def __init__(self, context: Context, plan: ShapePlan, item: PendingItem) -> None:
        self.context = context
        self.plan = plan
        self.item = item
        self.queue = plan.shape.queue
        self.priority = plan.shape.priority
        self.rule = context.rules.of(self.queue).preemption
        self.tree = context.snapshot.trees.get(QUEUE_TREE)
        known = self.tree is not None and self.queue in self.tree.nodes
        self.node = self.queue if known else None
        self.contended = contended(context, plan) if self._may_reach_out() else ()
        self._ties: dict[str, Tie | None] = {}
        self._runtimes: dict[str, int] = {}
        self._release = self._own_release()
        asked = self._asked() if self.contended else {}
        self._is_within_now = all(
            self._with(self.queue, subject, asked.get(subject, 0)) <= self._owned(self.queue, subject)
            for subject in self.contended
        )

    def _may_reach_out(self) -> bool:
        return self.node is not None and self.rule.reclaim is not Reclaim.NEVER and bool(self.plan.roles)

    @property
    def usage(self) -> Usage:
        """Of the queue tree, when all that ends has ended."""
        return self.context.ledger.worlds[-1][QUEUE_TREE]

    # --- who may be asked at all --------------------------------------------------------------------
    def loss(self, view: RunningView, is_hold: bool = False) -> Loss | None:
        """The view as a victim, if some rule lets it be one."""
        rule = self._rule_for(view) if view.preemptible else None
        if rule is None:
            return None
        if is_hold:
            return Loss(view, rule, (_KEPT, view.priority), True)
        protected_until = view.placed_at + self.min_runtime(view.queue)
        if protected_until > self.context.now:
            self.context.wake(protected_until)
            return None
        return Loss(view, rule, (self._turn(rule), view.priority))

    def _turn(self, rule: str) -> int:
        late = rule == RECLAIM and not self._is_within_now
        return _LATE if late else _TIERS.get(rule, _BORROWED)

    def has_one_turn(self, queue: str) -> bool:
        """Whether all that may be lost of a queue goes in one turn, by priority and time alone."""
        if queue == self.queue or self.item.guaranteed or self._is_within_now:
            return True
        tie = self.tie(queue)
        return tie is None or not tie.owned or tie.owned.issuperset(tie.borrowed)

    def losses(self, view: RunningView) -> list[Loss]:
        """All that may be stopped of an attempt. What it can lose and go on is not protected by the time that
        it must have run (after KAI)."""
        found = self._parts(view) if view.ids and view.preemptible else []
        whole = self.loss(view)
        if whole is None or not found:
            return found if whole is None else [whole]
        after = tuple(part.view.attempt_id for part in found)
        gone = [one for one in self.context.surplus(view) if one.member_id in after]
        tier = max(whole.tier, *(part.tier for part in found))
        return [*found, Loss(staying_view(view, gone), whole.rule, tier, gang=view, after=after)]

    def _parts(self, view: RunningView) -> list[Loss]:
        found: list[Loss] = []
        before: dict[str, tuple[Loss, ...]] = {}
        closed: set[str] = set()
        for gone in self.context.surplus(view):
            part, first = leaving_view(view, gone), before.get(gone.role, ())
            rule = None if gone.role in closed else self._rule_for(part)
            if rule is None:
                closed.add(gone.role)
                continue
            tier = max((_PART[self._turn(rule)], view.priority), *(one.tier for one in first), (0, 0))
            loss = Loss(part, rule, tier, gang=view, after=tuple(one.view.attempt_id for one in first))
            before[gone.role] = (*first, loss)
            found.append(loss)
        return found

    def _rule_for(self, view: RunningView) -> str | None:
        if view.queue == self.queue or self.item.guaranteed:
            allowed = self.rule.within_queue or self.item.guaranteed
            if not allowed or view.priority >= self.priority:
                return None
            return WITHIN_QUEUE if view.queue == self.queue else GUARANTEE
        tie = self.tie(view.queue)
        if tie is None:
            return None
        held = [subject for subject in tie.borrowed if view.charged.get(subject)]
        if not held:
            return None
        return self._rule(view, any(subject in tie.owned for subject in held))

    def _rule(self, view: RunningView, is_owned: bool) -> str | None:
        """By which rule it may be taken, where the own side owns what is taken, or would borrow it."""
        lower = view.priority < self.priority
        if self.rule.reclaim is Reclaim.LOWER_PRIORITY and not lower:
            return None
        if is_owned:
            return RECLAIM
        if self.context.policy.order is QueueOrder.FAIR_SHARE:
            return FAIR_SHARE
        below = self.rule.borrow_below
        return BORROWING if below is not None and lower and view.priority < below else None

    def min_runtime(self, queue: str) -> int:
        """What a victim of the queue must have run: as its side of the common ancestor has it (after KAI)."""
        known = self._runtimes.get(queue)
        if known is None:
            known = self._runtimes[queue] = self._min_runtime(queue)
        return known

    def _min_runtime(self, queue: str) -> int:
        if queue == self.queue or self.tree is None or self.node is None or queue not in self.tree.nodes:
            return self.context.rules.of(queue).preemption.min_runtime
        met = meeting(self.tree, self.node, queue)
        return self.context.rules.of(met[1][-1] if met else queue).preemption.min_runtime

    def tie(self, queue: str) -> Tie | None:
        """None where nothing may be taken from the queue."""
        if queue not in self._ties:
            self._ties[queue] = self._tie(queue)
        return self._ties[queue]

    def _tie(self, queue: str) -> Tie | None:
        tree = self.tree
        if not self.contended or tree is None or self.node is None or queue not in tree.nodes:
            return None
        met = meeting(tree, self.node, queue)
        if met is None:
            return None
        near, path, parent = met
        usage = self.usage
        borrowed = tuple(
            subject
            for subject in self.contended
            if all(usage.get((node, subject), 0) > tree.subtree(node, subject) for node in path)
        )
        if not borrowed:
            return None
        asked = self._asked()
        owned = frozenset(
            subject
            for subject in borrowed
            if self._with(near, subject, asked.get(subject, 0)) - self._release.get(subject, 0)
            <= self._owned(near, subject)
        )
        return Tie(near, path, parent, borrowed, owned)

    def _asked(self) -> dict[str, int]:
        lead = self.plan.lead
        asked = {device_class.value: amount for device_class, amount in self.plan.amounts.items()}
        asked.update((f"{FLAVOR_PREFIX}{name}", lead.count * lead.need.amount) for name in lead.flavors)
        return asked

    def _own_release(self) -> Mapping[str, int]:
        if not self.contended or not self.rule.within_queue:
            return {}
        return self.context.runs.charged_below(self.queue, self.priority)

    # --- the set of victims, as the simulation has it --------------------------------------------------
    def may_lose(self, loss: Loss) -> bool:
        """Whether the victim's side may lose it beside those that are taken off already."""
        tie = self.tie(loss.view.queue) if loss.rule in _BETWEEN else None
        if tie is None:
            return True
        usage = self.usage
        for subject in tie.borrowed:
            amount = loss.view.charged.get(subject, 0)
            spared = 1 if loss.rule == RECLAIM else amount  # who would borrow takes nothing that is owned
            if amount and all(
                usage.get((node, subject), 0) - spared >= self._owned(node, subject) for node in tie.path
            ):
                return True
        return False

    def judge(self, loss: Loss, needed: Iterable[str], charges: Sequence[Charge]) -> Verdict | None:
        """By which rule the attempt, charged this, may have the victim stopped; None: it may not.

        All victims are off now. `needed` are the subjects of which there would be too little with this one
        back: its queue must have borrowed each of them.
        """
        tie = self.tie(loss.view.queue) if loss.rule in _BETWEEN else None
        if tie is None:
            return Verdict(loss.rule)
        subjects = [subject for subject in needed if self.tree is not None and self.tree.governs(subject)]
        if not subjects or not all(self._is_above_with(tie, loss.view, subject) for subject in subjects):
            return None
        asked = {item.subject: item.quantity for item in charges if item.tree == QUEUE_TREE}
        is_owned = all(
            self._with(tie.near, subject, asked.get(subject, 0)) <= self._owned(tie.near, subject)
            for subject in subjects
        )
        rule = self._rule(loss.view, is_owned)
        if rule is None or (rule == BORROWING and not self._keeps_its_own(tie, subjects)):
            return None
        if rule != FAIR_SHARE:
            return Verdict(rule)
        own, without, with_it = self._compared(tie, loss.view, asked, subjects)
        if own > without or own >= with_it:
            return None
        shown = ComparedShares(tie.near, tie.path[-1], own // _SHOWN, without // _SHOWN, with_it // _SHOWN)
        return Verdict(FAIR_SHARE, shown)

    def _keeps_its_own(self, tie: Tie, subjects: Iterable[str]) -> bool:
        """Whether the victim's queue and its cohorts still use what they own: whoever would only borrow it
        would be evicted for them again."""
        usage = self.usage
        return all(
            usage.get((node, subject), 0) >= self._owned(node, subject)
            for node in tie.path
            for subject in subjects
        )

    def _is_above_with(self, tie: Tie, view: RunningView, subject: str) -> bool:
        """With the victim back, every node of its path has more than it owns."""
        return view.charged.get(subject, 0) > 0 and all(
            self._back(tie, node, subject, view) > self._owned(node, subject) for node in tie.path
        )

    def _compared(
        self, tie: Tie, view: RunningView, asked: Mapping[str, int], subjects: Sequence[str]
    ) -> tuple[int, int, int]:
        """The own side with the attempt, the victim's without all victims, and with this one back."""
        far, usage = tie.path[-1], self.usage
        own = {subject: self._with(tie.near, subject, asked.get(subject, 0)) for subject in subjects}
        without = {subject: usage.get((far, subject), 0) for subject in subjects}
        with_it = {subject: self._back(tie, far, subject, view) for subject in subjects}
        parent = tie.parent
        return (
            self._share(tie.near, parent, own),
            self._share(far, parent, without),
            self._share(far, parent, with_it),
        )

    # --- arithmetic -------------------------------------------------------------------------------------
    def _owned(self, node: str, subject: str) -> int:
        return self.tree.subtree(node, subject) if self.tree is not None else 0

    def _with(self, near: str, subject: str, quantity: int) -> int:
        """The usage of a node of the own path, were so much charged to the queue, too."""
        assert self.tree is not None
        assert self.node is not None
        used = self.usage.get((near, subject), 0)
        flows = charge(self.tree, self.usage, self.node, subject, quantity)
        return used + sum(delta for node, _, delta in flows if node == near)

    def _back(self, tie: Tie, node: str, subject: str, view: RunningView) -> int:
        """The usage of a node of the victim's path, were it alone back."""
        assert self.tree is not None
        used = self.usage.get((node, subject), 0)
        flows = charge(self.tree, self.usage, tie.path[0], subject, view.charged.get(subject, 0))
        return used + sum(delta for name, _, delta in flows if name == node)

    def _share(self, node: str, parent: str, used: Mapping[str, int]) -> int:
        """The dominant share above quota over these subjects alone, in parts of `WHOLE` at weight 1.
        What was used before does not count: it would let a decision of today be turned round tomorrow."""
        assert self.tree is not None
        most = 0
        for subject, quantity in used.items():
            whole = potential(self.tree, parent, subject)
            over = max(0, quantity - self._owned(node, subject))
            if whole > 0:
                most = max(most, over * WHOLE // whole)
            elif over:
                return _INFINITE
        weight = self.context.rules.of(node).weight
        if not most:
            return 0
        return most * USUAL_WEIGHT // weight if weight else _INFINITE


def meeting(tree: QuotaTree, own: str, other: str) -> tuple[str, tuple[str, ...], str] | None:
    """(own side, path of the other queue up to its side, lowest common ancestor); None in unlike trees and
    where one queue stands above the other."""
    above = tree.path(own)
    below = tree.path(other)
    met = next((node for node in below if node in above), None)
    if met is None or met in (own, other):
        return None
    return above[above.index(met) - 1], below[: below.index(met)], met

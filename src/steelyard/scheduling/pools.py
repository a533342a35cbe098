"""Who could make room for an attempt: those that stop anyway, and those that would have to be asked to.

What is the same for all attempts of a cycle is looked up once: who borrows, what stops. Of the queues from
which something may be taken, whoever goes first is looked at first, and no more of them than will be weighed.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from steelyard.model.policy import QUEUE_TREE
from steelyard.model.units import WHOLE_DEVICE
from steelyard.scheduling.context import Context
from steelyard.scheduling.domains import order_of
from steelyard.scheduling.placement import ShapePlan
from steelyard.scheduling.reclaim import Loss, Reach
from steelyard.scheduling.runs import ELASTIC, STOPS
from steelyard.scheduling.views import HoldView, PendingItem, RunningView

#: Candidates looked at, as a multiple of the victims allowed.
CANDIDATES_PER_VICTIM = 16
#: Those beside them where one device is enough for each member.
FEW = 64
#: Attempts of a queue that are gone through for candidates, as a multiple of these.
SCANNED = 8


@dataclass(frozen=True, slots=True)
class Pool:
    """Who could make room: those that stop anyway, and those that would have to be asked to."""

    stopping: tuple[RunningView, ...]
    losses: tuple[Loss, ...]  # in the order in which they are to go
    is_cut: bool  # there are more than were looked at
    reach: Mapping[str, int]  # by flavor, what all of them hold together


class Pools:
    """Who may make room for whom, in one cycle."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self._borrowers: dict[str, tuple[str, ...]] = {}
        self._stopping: dict[str, list[RunningView]] = {}  # by queue, and with what this cycle stopped so far
        self._stopped = -1  # of how many holds of this cycle the victims are among them

    def of(self, plan: ShapePlan, item: PendingItem) -> tuple[Reach, Pool | None]:
        """What an attempt may take, and from whom; None when nobody may make room for it."""
        reach = Reach(self.context, plan, item)
        return reach, self._pool(reach, [reach.queue, *self._others(reach)])

    def _stops(self, queue: str) -> list[RunningView]:
        """What stops in a queue, since before this cycle or by it."""
        context = self.context
        if self._stopped != len(context.new_holds):
            self._stopped, self._stopping = len(context.new_holds), {}
            since = [view for _, view in context.runs.at(*STOPS)]
            now = [view for made in context.evictions.values() for view in context.stops_by(made)]
            for view in sorted((*since, *now), key=lambda view: view.attempt_id):
                self._stopping.setdefault(view.queue, []).append(view)
        return self._stopping.get(queue, [])

    def _pool(self, reach: Reach, queues: list[str]) -> Pool | None:
        context, most = self.context, _most_candidates(self.context, reach)
        stopping = [view for queue in queues for view in self._stops(queue)]
        each = [_possible(context, reach, queue, most) for queue in queues]
        # one more shows that there are more
        losses = list(islice(heapq.merge(*each, key=order_of), most + 1))
        held = [loss for loss in (_held(reach, hold) for hold in _kept(context)) if loss is not None]
        if not losses and not held and all(reach.loss(view) is None for view in stopping):
            return None
        looked_at = (*held, *_whole(losses[:most]))
        stopping += _victims_of(context, held, stopping)
        of_flavor: dict[str, int] = {}
        for view in (*stopping, *(loss.view for loss in looked_at)):
            for flavor, amount in view.held.items():
                of_flavor[flavor] = of_flavor.get(flavor, 0) + amount
        return Pool(tuple(stopping), looked_at, len(losses) > most, of_flavor)

    def _others(self, reach: Reach) -> list[str]:
        """Other queues from which something may be taken. Who borrows is looked up once a cycle: what a cycle
        places only adds to it, and can't be a victim of the same cycle."""
        if reach.item.guaranteed:
            return [name for name in self.context.queues() if name != reach.queue]
        found = {name for subject in reach.contended for name in self._borrowing(subject)}
        return [name for name in sorted(found) if name != reach.queue and reach.tie(name) is not None]

    def _borrowing(self, subject: str) -> tuple[str, ...]:
        known = self._borrowers.get(subject)
        if known is None:
            context = self.context
            tree, usage = context.snapshot.trees[QUEUE_TREE], context.ledger.worlds[-1][QUEUE_TREE]
            names = {*context.queues(), *(hold.shape.queue for hold in context.holds.values())}
            known = tuple(
                name
                for name in sorted(names)
                if name in tree.nodes and usage.get((name, subject), 0) > tree.subtree(name, subject)
            )
            self._borrowers[subject] = known
        return known


def _possible(context: Context, reach: Reach, queue: str, most: int) -> Iterable[Loss]:
    """A queue's possible victims in order."""
    if context.runs.at(ELASTIC, queue) or not reach.has_one_turn(queue):
        return sorted(_all_possible(context, reach, queue, most), key=order_of)
    return _one_by_one(context, reach, queue, most)


def _one_by_one(context: Context, reach: Reach, queue: str, most: int) -> Iterator[Loss]:
    """In the order of victims, which is the order in which they go where all go by one rule."""
    for view in _scanned(context, reach, queue, most):
        loss = None if context.is_stopping(view) else reach.loss(view)
        if loss is not None and _answers(context, view):
            yield loss


def _all_possible(context: Context, reach: Reach, queue: str, most: int) -> list[Loss]:
    """All that may be lost of them, members that may leave alone, too; in no order."""
    found: list[Loss] = []
    for view in _scanned(context, reach, queue, most):
        if len(found) > most:
            break
        if not context.is_stopping(view) and (losses := reach.losses(view)) and _answers(context, view):
            found += losses
    return found


def _scanned(context: Context, reach: Reach, queue: str, most: int) -> Iterator[RunningView]:
    """Those of a queue that are gone through, in the order of victims."""
    lower_only = queue == reach.queue or reach.item.guaranteed
    for _, view in islice(context.runs.at(QUEUE_TREE, queue), SCANNED * most):
        if lower_only and view.priority >= reach.priority:
            return
        if view.queue == queue:
            yield view


def _whole(losses: list[Loss]) -> list[Loss]:
    """Those of a list that is cut with whom all are in it that must go with them."""
    if not any(loss.after for loss in losses):
        return losses
    known = {loss.view.attempt_id for loss in losses}
    return [loss for loss in losses if known.issuperset(loss.after)]


def _most_candidates(context: Context, reach: Reach) -> int:
    """Where a member needs one device at most, whoever has one will do, and few have to be weighed."""
    lead = reach.plan.lead
    most = CANDIDATES_PER_VICTIM * context.policy.max_victims
    return most if lead.need.amount > WHOLE_DEVICE else min(most, FEW + CANDIDATES_PER_VICTIM * lead.count)


def _answers(context: Context, view: RunningView) -> bool:
    return not view.members or view.members[0].cluster in context.answering  # it stays in one cluster


def _kept(context: Context) -> list[HoldView]:
    """Holds of earlier cycles that may be taken over; a service's headroom may not."""
    new = {hold.attempt_id for hold in context.new_holds}
    return [
        context.holds[key]
        for key in sorted(context.holds)
        if key not in new and not context.holds[key].item.standby and not context.holds[key].item.guaranteed
    ]


def _held(reach: Reach, hold: HoldView) -> Loss | None:
    shape = hold.shape
    view = RunningView(
        hold.attempt_id, hold.workload_id, shape.key, shape.queue, shape.project, shape.priority, hold.since,
        hold.members, hold.charges,
    )
    return reach.loss(view, is_hold=True)


def _victims_of(
    context: Context, held: Iterable[Loss], known: Iterable[RunningView]
) -> list[RunningView]:
    """Those that stop for holds which may be taken over, as far as they are not known yet."""
    seen = {view.attempt_id for view in known}
    found = []
    for loss in held:
        for victim in context.holds[loss.view.attempt_id].victims:
            view = context.endable.get(victim)
            if view is not None and victim not in seen and context.is_stopping(view):
                seen.add(victim)
                found.append(view)
    return found

"""decide(snapshot, policy, now) → Decisions: the one place where work is placed.

Pure and deterministic, whatever the order of the snapshot's mappings; the work is bounded by counts.
The live loop, what-if, explain, replay and the tests all call it.

A cycle: holds are settled first (placed where their places are free, kept, or dropped); then the
heads of all shapes are tried in order, each placed, given a hold with evictions, or found blocked,
which ends its shape for the cycle; then the blocked shapes are explained, those not looked at for
longest first.
"""

from __future__ import annotations

from dataclasses import dataclass

from steelyard.model.policy import Policy
from steelyard.model.reasons import Reason, ReasonCode
from steelyard.model.workloads import Shape
from steelyard.scheduling.alternatives import Alternatives
from steelyard.scheduling.assign import choose
from steelyard.scheduling.context import EXPLAIN_EVERY, Context
from steelyard.scheduling.decisions import (
    Decisions,
    DropCause,
    DroppedHold,
    Placement,
    Reservation,
    ShapeReasons,
    Stats,
)
from steelyard.scheduling.explain import Explainer, backoff_reason, pending_evaluation
from steelyard.scheduling.growth import grow
from steelyard.scheduling.heads import Heads
from steelyard.scheduling.holds import settle_holds
from steelyard.scheduling.lowered import enforce
from steelyard.scheduling.model_choice import ModelChoice
from steelyard.scheduling.near import near
from steelyard.scheduling.order import Waiting
from steelyard.scheduling.placement import Plan
from steelyard.scheduling.preemption import Pools, evicted_and_requested
from steelyard.scheduling.snapshot import AddPending, Snapshot
from steelyard.scheduling.views import HoldView, PendingItem, ShapeGroup

#: Shapes whose reasons are made in one cycle.
MAX_EXPLAINED = 256
#: When there is another cycle at the latest for those that have yet to look for victims (µs).
PUT_OFF_FOR = EXPLAIN_EVERY // 4
#: After so long their reasons are made all the same (µs).
LONGEST_PUT_OFF = 10 * EXPLAIN_EVERY
_PROBE = 2**63 - 1


def decide(snapshot: Snapshot, policy: Policy, now: int) -> Decisions:
    """What to do now, and why the rest waits. Changes nothing; see `Snapshot.apply`."""
    cycle = Cycle(snapshot, policy, now)
    cycle.run()
    return cycle.decisions(cycle.due())


@dataclass(frozen=True, slots=True)
class Explanation:
    """What the next cycle would do with one attempt, and all that stands in its way."""

    placement: Placement | None
    hold: HoldView | None
    reasons: tuple[Reason, ...]
    approximate: bool = False
    reservation: Reservation | None = None
    models: ModelChoice | None = None  # what it takes, or could take, where its speed on models is known


def explain(
    snapshot: Snapshot, policy: Policy, now: int, shape: Shape, item: PendingItem | None = None
) -> Explanation:
    """Decides as the next cycle would and tells what comes of one attempt; leaves no trace.

    Without `item` it is the shape's first waiting attempt, or one that is imagined as submitted now. Where
    many shapes wait, a cycle of those that are near (see there): that it starts is `approximate` then.
    """
    heads = [head for group in snapshot.pending if group.shape.key == shape.key for head in group.heads]
    held = next((hold.item for hold in snapshot.holds.values() if hold.shape.key == shape.key), None)
    chosen = item or min(heads, key=lambda head: (head.submitted, head.workload_id), default=held)
    if chosen is None:
        chosen = PendingItem(_PROBE, _PROBE, now)
    if chosen not in heads and chosen.attempt_id not in snapshot.holds:
        snapshot = snapshot.with_(AddPending(shape, chosen))
    snapshot, is_cut = near(snapshot, shape, now)
    cycle = Cycle(snapshot, policy, now)
    cycle.last = chosen.attempt_id  # what comes after it does not change what becomes of it
    cycle.run()
    decisions = cycle.decisions([shape])
    for placement in decisions.placements:
        if placement.attempt_id == chosen.attempt_id:
            taken = next((made for made in decisions.choices if made.attempt_id == chosen.attempt_id), None)
            return Explanation(placement, None, (), is_cut, models=taken)
    hold = cycle.context.holds.get(chosen.attempt_id)
    own = decisions.workload_reasons.get(chosen.workload_id, ())
    if hold is not None:
        return Explanation(None, hold, own)
    models = cycle.alternatives.open_to(shape, chosen)
    found = decisions.reasons[shape.key]
    place = next((made for made in decisions.reservations if made.attempt_id == chosen.attempt_id), None)
    waits = tuple(reason for reason in found.reasons if reason.code != ReasonCode.PENDING_EVALUATION)
    if own or waits:
        return Explanation(None, None, (*own, *waits), found.approximate and bool(waits), place, models)
    return Explanation(None, None, found.reasons, found.approximate, place, models)


class Cycle:
    """One run of `decide`."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        self.context = Context(snapshot, policy, now)
        self.dropped: list[DroppedHold] = []
        self.blocked: list[Shape] = []  # in the order in which they were tried
        self.tried = 0
        self._overflow = 0
        self._reserved: set[str] = set()  # blocked shapes of which one more may get a reservation
        self._next_look: int | None = None
        self.last: int | None = None  # the attempt after which none of its shape follows
        self.waiting = Waiting(self.context, (), ())
        self.heads = Heads(self.context)
        self.alternatives = Alternatives(self.context)

    def run(self) -> None:
        """Settles the holds and goes through the heads."""
        context = self.context
        self.dropped = settle_holds(context)
        enforce(context)
        back = [
            context.snapshot.holds[dropped.attempt_id]
            for dropped in self.dropped
            if dropped.cause is not DropCause.VANISHED
        ]
        groups = [*context.snapshot.pending, *(ShapeGroup(hold.shape, (hold.item,), 1) for hold in back)]
        settled = {placement.attempt_id for placement in context.placements}
        self.waiting = Waiting(context, groups, context.holds.keys() | settled)
        self._fill()
        self.blocked += self.waiting.behind
        self.heads.behind.update(shape.key for shape in self.waiting.behind)
        grow(context, groups)

    def _fill(self) -> None:
        context, waiting = self.context, self.waiting
        pools = Pools(context)
        most = context.policy.max_placements
        while len(context.placements) + len(context.new_holds) < most:
            head = waiting.pop()
            if head is None:
                if not self.alternatives.resume(waiting):
                    return
                continue
            shape, item = head
            if self.alternatives.sets_aside(shape, item):
                continue
            self.tried += 1
            if self._settle(pools, shape, item):
                if item.attempt_id != self.last:
                    waiting.again(shape)
                continue
            if shape.key not in self._reserved:
                self.blocked.append(shape)
            if context.reservations.goes_on(shape, context.rules.of(shape.queue).reservations):
                self._reserved.add(shape.key)
                waiting.again(shape)
            elif self.heads.is_strict(shape, item):
                waiting.stop_behind(shape)
        self.alternatives.resume(waiting)

    def _settle(self, pools: Pools, shape: Shape, item: PendingItem) -> bool:
        context = self.context
        if context.is_barred(shape):
            return False
        plan = self.alternatives.narrowed(self.heads.beside(context.plan(shape), item))
        choice = choose(context, pools, plan, item)
        if isinstance(choice, Plan):
            if item.standby:
                context.keep_place(plan, item, choice)
            else:
                context.commit(plan, item, choice)
            return True
        if context.placer.cut_short:
            context.approximate.add(shape.key)
        # headroom goes first, yet stops nobody: only a replica that is wanted takes back what was lent
        if choice is not None:
            context.add_hold(*choice)
            return True
        if context.reservations.reserve(plan, item, context.rules.of(shape.queue).reservations) is None:
            self.heads.drain(shape, item)
        return False

    def due(self) -> list[Shape]:
        """The blocked shapes to explain now: never looked at first, then those longest ago. Those that have
        yet to look for victims keep the reasons that they have meanwhile."""
        looked, now, put_off = self.context.snapshot.last_looked, self.context.now, self.context.put_off
        due: list[tuple[int, int, Shape]] = []
        for shape in self.blocked:
            at = looked.get(shape.key)
            if at is not None and shape.key in put_off and now - at < LONGEST_PUT_OFF:
                self.context.wake(now + PUT_OFF_FOR)
            elif at is None or now - at >= EXPLAIN_EVERY:
                due.append((-1 if at is None else at, len(due), shape))
            else:
                again = at + EXPLAIN_EVERY
                self._next_look = again if self._next_look is None else min(self._next_look, again)
        due.sort(key=lambda entry: entry[:2])
        self._overflow = max(0, len(due) - MAX_EXPLAINED)
        return [shape for _, _, shape in due[:MAX_EXPLAINED]]

    def decisions(self, explained: list[Shape]) -> Decisions:
        """The answer, with the reasons of these shapes."""
        context = self.context
        reasons: dict[str, ShapeReasons] = {}
        own = {item.workload_id: (backoff_reason(item),) for _, item in self.waiting.later}
        if explained or context.holds:
            context.reservations.lift_all()
            explainer = Explainer(context)
            for shape in explained:
                reasons[shape.key] = self.heads.explained(shape, explainer.shape(shape))
            own.update((hold.workload_id, (explainer.hold(hold),)) for hold in context.holds.values())
        known = context.snapshot.last_looked
        unseen = [*self.waiting.rest(), *(shape.key for shape in self.blocked)]
        for key in unseen:
            if key not in known and key not in reasons:
                reasons[key] = ShapeReasons((pending_evaluation(),), True)
        return Decisions(
            context.now,
            context.policy.version,
            tuple(context.placements),
            tuple(context.evictions[key] for key in sorted(context.evictions)),
            tuple(context.new_holds),
            (*self.dropped, *context.taken_over),
            (),
            reasons,
            own,
            tuple(shape.key for shape in explained),
            self._stats(len(explained)),
            tuple(context.reservations.made),
            self.alternatives.choices(context.placements),
            tuple(context.growths),
        )

    def _stats(self, explained: int) -> Stats:
        waiting, context = self.waiting, self.context
        instants = [max(item.not_before, item.eligible_at) for _, item in waiting.later]
        if self._next_look is not None:
            instants.append(self._next_look)
        if context.next_at is not None:
            instants.append(context.next_at)
        placed_all = {placement.shape_key for placement in context.placements}
        placed_all |= {hold.shape.key for hold in context.new_holds}
        blocked = {shape.key for shape in self.blocked}
        more = not waiting.empty or bool((waiting.unseen & placed_all) - blocked) or self._overflow > 0
        more = more or bool(context.taken_over)  # they wait again, and were not looked at
        # its places may be free already, taken by what is only planned, and no event would tell
        more = more or any(not hold.item.standby for hold in context.new_holds)
        return Stats(
            self.tried, context.board.looks, explained, self._overflow, context.preemptions_tried, more,
            min(instants, default=None), *evicted_and_requested(context),
        )
"""The state of one cycle: the snapshot it rests on and the working copies that its steps share."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping

from steelyard.model.lifecycle import RULES, Phase
from steelyard.model.policy import QUEUE_TREE, Policy
from steelyard.model.units import SECOND
from steelyard.model.workloads import MemberPlan, Shape
from steelyard.scheduling.barriers import barriers
from steelyard.scheduling.board import Board
from steelyard.scheduling.bundles import leaving_view, staying_view, stopped_by, surplus_of
from steelyard.scheduling.decisions import (
    DropCause,
    DroppedHold,
    Eviction,
    Growth,
    Leaving,
    Placement,
    QuotaBasis,
)
from steelyard.scheduling.gang import GangPlacer
from steelyard.scheduling.history import Past
from steelyard.scheduling.ledger import Ledger
from steelyard.scheduling.node_choice import node_choice
from steelyard.scheduling.placement import Plan, ShapePlan, answering_clusters, prepare
from steelyard.scheduling.proportion import Excess
from steelyard.scheduling.reservation import Reservations
from steelyard.scheduling.rules import Rules
from steelyard.scheduling.runs import as_runs
from steelyard.scheduling.snapshot import Snapshot
from steelyard.scheduling.subjects import Counting
from steelyard.scheduling.turns import Turns
from steelyard.scheduling.views import Charge, HoldView, PendingItem, RunningView

#: A blocked shape is explained, and looks for victims, no sooner than this after the last time (µs).
EXPLAIN_EVERY = SECOND
#: A hold lasts no longer than its phase may.
HOLD_TIMER = RULES[Phase.RESERVED].timer or 0


class Context:
    """Mutable, made anew for each call of `decide`."""

    def __init__(self, snapshot: Snapshot, policy: Policy, now: int) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.now = now
        self.answering = answering_clusters(snapshot.clusters, policy.observation_bound, now)
        self.usable = frozenset(
            name for name, flavor in snapshot.flavors.items() if flavor.cluster in self.answering
        )
        self.board = Board(snapshot.nodes, snapshot.flavors, self.usable)
        self.ledger = Ledger(snapshot.trees, snapshot.usage)
        choice = node_choice(self.board, policy, snapshot.prices)
        self.placer = GangPlacer(self.board, self.ledger, policy, choice)
        self.rules = Rules(policy, snapshot.trees.get(QUEUE_TREE))
        self.counting = Counting(snapshot.trees, snapshot.flavors, policy)
        self.past = Past(snapshot.history, policy.fairness, snapshot.trees.get(QUEUE_TREE))
        self.turns = Turns(snapshot, policy, now, self.rules, self.ledger, self.past)
        self.reservations = Reservations(snapshot, self.board, self.ledger, self.placer, now)
        self.placements: list[Placement] = []
        self.growths: list[Growth] = []
        self.evictions: dict[int, Eviction] = {}  # by the victim's attempt id
        self._leaving: dict[int, RunningView] = {}  # members that leave by this cycle, by their ids
        #: What holds may wait for, by id: what runs, and such members.
        self.endable: Mapping[int, RunningView] = ChainMap(self._leaving, snapshot.running)  # type: ignore[arg-type]
        self._surplus: dict[int, list[Leaving]] = {}
        self.holds: dict[int, HoldView] = {}  # kept and new ones
        self.new_holds: list[HoldView] = []
        self.taken_over: list[DroppedHold] = []
        self.next_at: int | None = None  # see `wake`
        self.approximate: set[str] = set()  # shapes whose search met a bound
        self.excess: dict[str, Excess] = {}  # by shape, whom to stop for it would be too much
        self.preemptions_tried = 0
        self.preemption_looks = 0
        self.preemption_moves = 0
        self.put_off: set[str] = set()  # shapes whose search for victims has to wait for the next cycle
        self._plans = snapshot.plans.of(
            (snapshot.flavors, snapshot.pools, snapshot.trees, policy, self.usable)
        )
        self.runs = as_runs(snapshot.running)

    def plan(self, shape: Shape) -> ShapePlan:
        """The shape made ready; once for as long as flavors, pools, trees and policy are the same."""
        known = self._plans.get(shape.key)
        if known is not None and (known[0] is shape or known[0] == shape):
            kept: ShapePlan = known[1]
            return kept
        groups = self.rules.of(shape.queue).groups
        plan = prepare(self.snapshot, self.usable, shape, groups=groups, counting=self.counting)
        self._plans[shape.key] = shape, plan
        return plan

    def is_barred(self, shape: Shape) -> bool:
        """True when the shape's queue or organisation does not let anything start."""
        plan = self.plan(shape)
        if plan.is_barred is None:
            plan.is_barred = bool(barriers(self.snapshot, plan))
        return plan.is_barred

    def commit(self, plan: ShapePlan, item: PendingItem, found: Plan) -> None:
        """Notes a placement whose places are taken, and charges it."""
        self.ledger.add(found.charges)
        self.reservations.started(plan, item, found)
        self._note(plan, item, found.members, found.charges, from_hold=False)

    def commit_hold(self, hold: HoldView) -> None:
        """A hold's planned places, all free now, are taken; its charges are counted already."""
        plan = self.plan(hold.shape)
        self.reservations.started(plan, hold.item, Plan(hold.members, hold.charges))
        self._note(plan, hold.item, hold.members, hold.charges, from_hold=True)

    def take_growth(self, found: Plan) -> None:
        """Charges a member that joins a gang; its places are taken."""
        self.ledger.add(found.charges)
        self.reservations.grown(found)

    def commit_growth(
        self, run: RunningView, shape: Shape, members: tuple[MemberPlan, ...], charges: tuple[Charge, ...]
    ) -> None:
        """Notes all that joins a gang in this cycle, taken and charged already."""
        basis, lender = self._basis(shape.queue, charges)
        self.past.start((shape.queue, shape.project, shape.user or ""), charges)
        self.growths.append(Growth(run.workload_id, run.attempt_id, members, charges, basis, lender))

    def _note(
        self,
        plan: ShapePlan,
        item: PendingItem,
        members: tuple[MemberPlan, ...],
        charges: tuple[Charge, ...],
        from_hold: bool,
    ) -> None:
        basis, lender = self._basis(plan.shape.queue, charges)
        key = plan.shape.key
        self.past.start((plan.shape.queue, plan.shape.project, plan.shape.user or ""), charges)
        self.placements.append(
            Placement(item.workload_id, item.attempt_id, key, members, charges, from_hold, basis, lender)
        )

    def _basis(self, queue: str, charges: tuple[Charge, ...]) -> tuple[QuotaBasis, str | None]:
        tree = self.snapshot.trees.get(QUEUE_TREE)
        if tree is None:
            return QuotaBasis.UNLIMITED, None
        usage, is_governed = self.ledger.worlds[0][QUEUE_TREE], False
        for name, parts in self.ledger.parts(charges):
            if name == QUEUE_TREE:
                for _, flow, _ in parts:
                    is_governed = True
                    if usage.get(flow[0][0], 0) > tree.subtree(*flow[0][0]):
                        return QuotaBasis.BORROWED, tree.nodes[queue].parent
        return (QuotaBasis.NOMINAL if is_governed else QuotaBasis.UNLIMITED), None

    def is_stopping(self, attempt: RunningView) -> bool:
        """True when it stops already, or is asked to in this cycle."""
        return attempt.stopping or attempt.attempt_id in self.evictions

    def surplus(self, attempt: RunningView) -> list[Leaving]:
        """The members that it could lose and go on."""
        known = self._surplus.get(attempt.attempt_id)
        if known is None:
            known = self._surplus[attempt.attempt_id] = surplus_of(attempt, self.counting)
        return known

    def stops_by(self, eviction: Eviction) -> list[RunningView]:
        """What an eviction of this cycle stops, or would."""
        return stopped_by(self.snapshot.running[eviction.attempt_id], eviction)

    def evict(self, evictions: Iterable[Eviction]) -> None:
        """Notes whom this cycle stops."""
        for eviction in evictions:
            self.evictions[eviction.attempt_id] = eviction
            if eviction.members:
                victim = self.snapshot.running[eviction.attempt_id]
                self._leaving |= {gone.member_id: leaving_view(victim, gone) for gone in eviction.members}
                self.ledger.rest[victim.attempt_id] = staying_view(victim, eviction.members).charges

    def keep_place(self, plan: ShapePlan, item: PendingItem, found: Plan) -> None:
        """A place that is free now, and taken, is kept for an attempt of a service's headroom."""
        self.board.change_members(found.members, 1)
        hold = HoldView(
            item.attempt_id, item.workload_id, plan.shape, item, found.members, found.charges, (), self.now
        )
        self.add_hold(hold, ())

    def add_hold(
        self, hold: HoldView, evictions: Iterable[Eviction] = (), taken: Iterable[HoldView] = ()
    ) -> None:
        """Keeps the hold's places and charges it, while its victims still have theirs. The holds that it
        takes over end: their attempts go back with everything given back."""
        for other in taken:
            self.board.change_members(other.members, 1)
            self.ledger.drop(other)
            del self.holds[other.attempt_id]
            self.taken_over.append(
                DroppedHold(other.workload_id, other.attempt_id, DropCause.TAKEN_OVER, other.charges)
            )
        evictions = tuple(evictions)
        self.evict(evictions)
        self.board.change_members(hold.members, -1)
        self.ledger.hold(hold, self.endable)
        self.reservations.held(hold, [view for eviction in evictions for view in self.stops_by(eviction)])
        self.holds[hold.attempt_id] = hold
        self.new_holds.append(hold)

    def wake(self, at: int) -> None:
        """Something that waits now may do something at that instant, though nothing happens until then."""
        self.next_at = at if self.next_at is None else min(self.next_at, at)

    def queues(self) -> list[str]:
        """Those in which something has devices, by name."""
        return self.runs.queues()

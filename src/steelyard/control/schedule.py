"""The schedule loop: a snapshot of what is live, one call of `decide`, one unit for what it decided."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from steelyard.control.commands import start_attempt
from steelyard.control.context import Context, step
from steelyard.control.evictions import book_evictions
from steelyard.control.growing import book_growth
from steelyard.control.leaving import is_apart
from steelyard.control.metering import Causes
from steelyard.control.waiting import Waiting
from steelyard.model.ids import render
from steelyard.model.lifecycle import Phase
from steelyard.model.resources import DIMENSION
from steelyard.model.workloads import AllocationPlan, MemberPlan
from steelyard.scheduling import (
    Decisions,
    DropCause,
    DroppedHold,
    Growth,
    HoldView,
    Placement,
    ShapeReasons,
    Snapshot,
    decide,
)
from steelyard.services.basis import basis_body
from steelyard.services.cycles import decisions_body
from steelyard.services.live_records import LiveAllocation, LiveAttempt, LiveMember
from steelyard.store import tables as t
from steelyard.store.statements import Row
from steelyard.store.unit import Unit

_encode = msgspec.json.Encoder(order="deterministic").encode


class Scheduler:
    """Decides and books what was decided. `more` is True when it should be called again at once."""

    def __init__(self, context: Context, waiting: Waiting) -> None:
        self._context = context
        self._waiting = waiting
        self._causes = Causes(context, waiting)
        self.more = False
        self.next_at: int | None = None

    def run(self) -> int:
        """One cycle; how many attempts it placed."""
        context, now = self._context, self._context.now()
        snapshot = context.state.snapshot()
        decisions = decide(snapshot, context.state.policy, now)
        self.more, self.next_at = decisions.stats.more, decisions.stats.next_at
        context.state.last_looked.update(dict.fromkeys(decisions.looked, now))
        if context.moved and not context.moved.isdisjoint(self._workloads(decisions)):
            context.settle()
        unit = context.going_on()
        known = len(unit.drafts)  # leaves of what ended: the snapshot is after them
        cycle_id = context.store.ids.next()
        self._apply(unit, cycle_id, decisions)
        noted = self._waiting.note(unit, cycle_id, now, self._still_waiting(decisions))
        self._waiting.settle(unit, now)
        self._causes.run(now)
        if decisions.changes_state or noted:
            self._store_cycle(unit, known, cycle_id, decisions, snapshot)
        context.commit(unit, now)
        return len(decisions.placements)

    def _still_waiting(self, decisions: Decisions) -> dict[str, ShapeReasons]:
        waiting = self._context.state.waiting_shapes()
        return {key: found for key, found in decisions.reasons.items() if key in waiting}

    def _workloads(self, decisions: Decisions) -> Iterator[int]:
        """Whom the decisions move."""
        attempts = self._context.state.attempts
        ids = chain(
            (placement.attempt_id for placement in decisions.placements),
            (eviction.attempt_id for eviction in decisions.evictions),
            (hold.attempt_id for hold in decisions.holds),
            (growth.attempt_id for growth in decisions.growths),
            (dropped.attempt_id for dropped in decisions.dropped_holds),
        )
        return (attempts[each].workload_id for each in ids if each in attempts)

    def _store_cycle(
        self, unit: Unit, known: int, cycle_id: int, decisions: Decisions, snapshot: Snapshot
    ) -> None:
        context = self._context
        written = max(context.next_seq, context.store.writer.state.size)
        row = unit.insert(
            t.cycle,
            id=cycle_id,
            at=decisions.now,
            log_size=context.next_seq,
            last_hash=context.last_hash,
            observations_json=basis_body(snapshot, decisions, written),
            policy_version=decisions.policy_version,
            decisions_json=decisions_body(decisions),
            reasons_json=_encode(sorted(decisions.reasons)).decode(),
        )
        if known:
            before = context.next_seq

            def placed(first: int, hash_of: Callable[[int], bytes]) -> None:
                row["observations_json"] = basis_body(snapshot, decisions, first + known)
                if first == before:
                    row["log_size"], row["last_hash"] = first + known, hash_of(first + known - 1)

            unit.on_place = placed

    def _apply(self, unit: Unit, cycle_id: int, decisions: Decisions) -> None:
        for dropped in decisions.dropped_holds:
            self._drop(unit, dropped, decisions)
        for placement in decisions.placements:
            self._place(unit, cycle_id, placement, decisions.now)
        for growth in decisions.growths:
            self._grow(unit, cycle_id, growth, decisions.now)
        for hold in decisions.holds:
            self._hold(unit, hold, decisions.now)
        book_evictions(self._context, unit, cycle_id, decisions.evictions, decisions.now)

    # --- placements ------------------------------------------------------------------------------
    def _place(self, unit: Unit, cycle_id: int, placement: Placement, now: int) -> None:
        context = self._context
        attempt = context.state.attempts[placement.attempt_id]
        before = attempt.phase
        attempt.members = [self._member(unit, attempt, plan, placement, now) for plan in placement.members]
        allocations = [a for member in attempt.members for a in member.allocations]
        attempt.charges = placement.charges
        context.state.note_start(attempt)
        attempt.policy_version = context.state.policy.version
        attempt.simulated = any(context.state.devices[a.device_id].simulated for a in allocations)
        if placement.from_hold:
            context.state.holds.pop(attempt.attempt_id)
            unit.delete(t.hold, attempt_id=attempt.attempt_id)
            for allocation in allocations:
                context.meter.unreserve(allocation.device_id, render("attempt", attempt.attempt_id), now)
        else:
            context.charge(attempt.charges, 1)
        for allocation in allocations:
            device = context.state.touch(allocation.device_id)
            device.held += allocation.quantity
            device.share_kind = allocation.share_kind
            context.meter.hold(allocation.device_id, allocation.quantity, now)
        self._waiting.slices(unit, attempt, now)
        attempt.times["placed"] = now
        clusters = sorted(attempt.clusters)
        fed = {} if attempt.starving_bound is None else {"starving_bound": None}
        attempt.starving_bound = None
        carrier = context.move(
            unit,
            attempt,
            Phase.STARTING,
            {
                "placed": now,
                "cluster": clusters[0],
                "simulated": attempt.simulated,
                "cycle_id": cycle_id,
                "policy_version": attempt.policy_version,
            },
            fed,
        )
        detail = {
            "cycle": render("cycle", cycle_id),
            "members": [_where(member) for member in attempt.members],
        }
        context.leaf(unit, attempt, carrier, "workload.place", (step(before, "starting", now),), detail)
        context.after_commit.append(lambda: start_attempt(context, attempt))

    def _grow(self, unit: Unit, cycle_id: int, growth: Growth, now: int) -> None:
        attempt = self._context.state.attempts[growth.attempt_id]
        members = [self._member(unit, attempt, plan, growth, now, joined_at=now) for plan in growth.members]
        where: list[Row] = [_where(member) for member in members]
        book_growth(self._context, unit, cycle_id, growth, members, where, now)

    def _member(
        self, unit: Unit, attempt: LiveAttempt, plan: MemberPlan, placement: Placement | Growth, now: int,
        joined_at: int | None = None,
    ) -> LiveMember:  # fmt: skip
        node = self._context.state.nodes[plan.node_id]
        member_id = self._context.store.ids.next()
        apart = is_apart(attempt.spec, plan)
        unit.insert(
            t.member, id=member_id, attempt_id=attempt.attempt_id, role=plan.role, idx=plan.index,
            phase="starting", cluster=plan.cluster, node_id=plan.node_id, apart=apart,
            joined_at=joined_at,
        )  # fmt: skip
        allocations = [self._allocation(plan.cluster, wanted, placement, now) for wanted in plan.allocations]
        for allocation in allocations:
            _insert_allocation(unit, attempt, member_id, allocation)
        return LiveMember(
            member_id, render("member", member_id), plan.role, plan.index, plan.cluster, plan.node_id,
            node.name, "starting", allocations, apart=apart, joined_at=joined_at,
        )  # fmt: skip

    def _allocation(
        self, cluster: str, wanted: AllocationPlan, placement: Placement | Growth, now: int
    ) -> LiveAllocation:
        context = self._context
        assert wanted.device_id is not None  # every engine of ours says which device
        return LiveAllocation(
            context.store.ids.next(), wanted.device_id, wanted.node_id, cluster, wanted.flavor,
            wanted.device_class, wanted.quantity, wanted.share_kind, now, context.org_version,
            context.state.policy.version, placement.quota_basis.value, placement.lender,
        )  # fmt: skip

    # --- holds and evictions -----------------------------------------------------------------------
    def _hold(self, unit: Unit, hold: HoldView, now: int) -> None:
        context = self._context
        attempt = context.state.attempts[hold.attempt_id]
        attempt.charges = hold.charges
        context.charge(attempt.charges, 1)
        context.state.holds[hold.attempt_id] = hold
        for plan in hold.members:
            for wanted in plan.allocations:
                if wanted.device_id is not None:
                    context.meter.reserve(
                        wanted.device_id, wanted.quantity, render("attempt", hold.attempt_id), now
                    )
        unit.upsert(
            t.hold, ("attempt_id",), attempt_id=hold.attempt_id, at=now, plan_json=_encode(hold).decode()
        )
        before = attempt.phase
        if before is Phase.RESERVED:
            return
        attempt.times["reserved"] = now
        carrier = context.move(unit, attempt, Phase.RESERVED, {"reserved": now})
        detail = {"victims": [render("attempt", victim) for victim in hold.victims]}
        context.leaf(unit, attempt, carrier, "workload.reserve", (step(before, "reserved", now),), detail)

    def _drop(self, unit: Unit, dropped: DroppedHold, decisions: Decisions) -> None:
        context = self._context
        hold = context.state.holds.pop(dropped.attempt_id)
        unit.delete(t.hold, attempt_id=dropped.attempt_id)
        for plan in hold.members:
            for allocation in plan.allocations:
                if allocation.device_id is not None:
                    holder = render("attempt", dropped.attempt_id)
                    context.meter.unreserve(allocation.device_id, holder, decisions.now)
        context.charge(dropped.charges, -1)
        attempt = context.state.attempts.get(dropped.attempt_id)
        if attempt is None or dropped.cause is DropCause.VANISHED:
            return
        attempt.charges = ()
        again = {p.attempt_id for p in decisions.placements} | {h.attempt_id for h in decisions.holds}
        if attempt.attempt_id in again:
            return
        attempt.times["reserved"] = None
        carrier = context.move(unit, attempt, Phase.QUEUED, {"reserved": None})
        moved = (step(Phase.RESERVED, "queued", decisions.now),)
        context.leaf(unit, attempt, carrier, "workload.hold-dropped", moved, reason=dropped.cause.value)


def _insert_allocation(unit: Unit, attempt: LiveAttempt, member_id: int, allocation: LiveAllocation) -> None:
    kind = allocation.device_class
    unit.insert(
        t.allocation, id=allocation.id, member_id=member_id, attempt_id=attempt.attempt_id,
        cluster=allocation.cluster, node_id=allocation.node_id, device_id=allocation.device_id,
        flavor=allocation.flavor, device_class=kind.value, dimension=DIMENSION[kind].value,
        quantity=allocation.quantity, share_kind=allocation.share_kind.value, t0=allocation.t0, t1=None,
        org_version=allocation.org_version, policy_version=allocation.policy_version, queue=attempt.queue,
        quota_basis=allocation.quota_basis, lender=allocation.lender,
    )  # fmt: skip


def _where(member: LiveMember) -> dict[str, object]:
    return {
        "id": member.text_id,
        "role": member.role,
        "index": member.index,
        "node": member.node,
        "devices": [
            {
                "id": render("device", a.device_id),
                "class": a.device_class.value,
                "flavor": a.flavor,
                "quantity": a.quantity,
            }
            for a in member.allocations
        ],
    }

"""The scheduling core without a store: the live state of the control loop, one call of `decide` a cycle, and
the books kept as the loop keeps them. Time is counted where it is spent: making snapshots, deciding, booking.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from steelyard.evidence.leaf import Head
from steelyard.model.lifecycle import Phase
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Policy
from steelyard.model.resources import Availability, DeviceClass, ShareKind
from steelyard.model.workloads import AllocationPlan, MemberPlan, Shape, WorkloadKind, WorkloadSpec
from steelyard.scheduling import ClusterView, Decisions, QuotaTree, decide
from steelyard.scheduling.history import UNIT, Used, history_of
from steelyard.services.live import LiveState
from steelyard.services.live_records import LiveAllocation, LiveAttempt, LiveDevice, LiveMember, LiveNode

_HEAD = Head(1, 1, b"")
SPEC = WorkloadSpec("w", "dev", WorkloadKind.TRAINING, ())
FAMILY = {DeviceClass.CPU: "cpu", DeviceClass.MEMORY: "memory"}


class Hall:
    """Nodes, what waits and what runs. `now` is the caller's clock."""

    def __init__(self, policy: Policy, trees: Mapping[str, QuotaTree]) -> None:
        self.state = LiveState()
        self.state.policy = policy
        self.state.trees = dict(trees)
        self.now = 1_000_000_000_000
        self.snapshot_ns = self.decide_ns = self.book_ns = 0
        self.placed = self.evicted = 0
        self._next = 1
        self._nodes = 0

    def node(self, cluster: str, devices: Iterable[tuple[DeviceClass, str, str, int]]) -> None:
        """One more node with devices of (class, flavor, model, capacity)."""
        self._nodes += 1
        number = self._nodes
        node = LiveNode(
            number, cluster, f"n{number}", {}, Availability.AVAILABLE, None, True, 1, _HEAD,
        )  # fmt: skip
        for index, (device_class, flavor, model, capacity) in enumerate(devices):
            device = LiveDevice(
                number * 100 + index, number, cluster, f"d{index}", device_class,
                FAMILY.get(device_class, "nvidia"), model, capacity, None, Availability.AVAILABLE, None, True,
                False, 1, "pool", flavor,
            )  # fmt: skip
            node.devices.append(device)
            self.state.devices[device.id] = device
        self.state.nodes[number] = node
        self.state.touch_node(number)

    def submit(self, shape: Shape, submitted: int | None = None) -> LiveAttempt:
        """One more that waits."""
        number, self._next = self._next, self._next + 1
        at = self.now if submitted is None else submitted
        attempt = LiveAttempt(
            number, number, 1, "w", "dev", shape.project, "training", shape.queue, shape.priority,
            shape.user or "us", shape, 1, SPEC, Phase.QUEUED, None, at, 1, 1, _HEAD,
            {"submitted": at, "eligible": at}, None, None, 0, None,
        )  # fmt: skip
        self.state.add(attempt)
        return attempt

    def cycle(self) -> Decisions:
        """One cycle of the loop, booked."""
        state = self.state
        for cluster in {node.cluster for node in state.nodes.values()} if not state.clusters else ():
            state.clusters[cluster] = ClusterView(cluster, self.now)
        begun = time.process_time_ns()
        snapshot = state.snapshot()
        made = time.process_time_ns()
        decisions = decide(snapshot, state.policy, self.now)
        decided = time.process_time_ns()
        self._book(decisions)
        self.snapshot_ns += made - begun
        self.decide_ns += decided - made
        self.book_ns += time.process_time_ns() - decided
        return decisions

    def remember(self) -> None:
        """What was used lately, where the policy counts it: as if all that runs had run for long."""
        state, own = self.state, dict[Used, int]()
        for attempt in state.attempts.values():
            for charge in attempt.charges if attempt.members else ():
                if charge.tree == QUEUE_TREE:
                    key = (attempt.queue, attempt.project, attempt.shape.user or "", charge.subject)
                    own[key] = own.get(key, 0) + charge.quantity * UNIT
        at = self.now - self.now % state.policy.fairness.sampling
        state.history = history_of(state.trees.get(QUEUE_TREE), at, own)

    def began(self, attempt: LiveAttempt, at: int) -> None:
        """One that runs was placed, and has run, since then."""
        attempt.times["placed"] = attempt.times["started"] = at
        self.state.change_phase(attempt, Phase.RUNNING)

    def observe(self) -> None:
        """Every cluster was looked at just now."""
        for name in self.state.clusters:
            self.state.clusters[name] = ClusterView(name, self.now)

    def cordon(self, node_id: int, is_cordoned: bool) -> None:
        """A node takes nothing more, or again does."""
        node = self.state.nodes[node_id]
        node.availability = Availability.PLANNED if is_cordoned else Availability.AVAILABLE
        self.state.touch_node(node_id)

    def end(self, attempt: LiveAttempt) -> None:
        """It ended, and everything that it had is free."""
        state = self.state
        for member in attempt.members:
            for allocation in member.allocations:
                state.touch(allocation.device_id).held -= allocation.quantity
        state.charge(attempt.charges, -1)
        state.remove(attempt.workload_id)

    def requeue(self, attempt: LiveAttempt) -> LiveAttempt:
        """A victim ended: it waits again with its first submit time."""
        self.end(attempt)
        number, self._next = self._next, self._next + 1
        again = attempt.following(number, self.now, 0, ())
        self.state.add(again)
        return again

    # --- the books, as the control loop keeps them --------------------------------------------------
    def _book(self, decisions: Decisions) -> None:
        state = self.state
        state.last_looked.update(dict.fromkeys(decisions.looked, decisions.now))
        for dropped in decisions.dropped_holds:
            state.holds.pop(dropped.attempt_id)
            state.charge(dropped.charges, -1)
            attempt = state.attempts[dropped.attempt_id]
            attempt.charges = ()
            state.change_phase(attempt, Phase.QUEUED)
        for placement in decisions.placements:
            attempt = state.attempts[placement.attempt_id]
            attempt.members = [self._member(plan) for plan in placement.members]
            attempt.charges = placement.charges
            if placement.from_hold:
                state.holds.pop(placement.attempt_id)
            else:
                state.charge(placement.charges, 1)
            state.note_start(attempt)
            attempt.times["placed"] = attempt.times["started"] = decisions.now
            state.change_phase(attempt, Phase.RUNNING)
        for hold in decisions.holds:
            attempt = state.attempts[hold.attempt_id]
            attempt.charges = hold.charges
            state.charge(hold.charges, 1)
            state.holds[hold.attempt_id] = hold
            state.change_phase(attempt, Phase.RESERVED)
        for eviction in decisions.evictions:
            victim = state.attempts[eviction.attempt_id]
            victim.stop_reason = "preempted"
            state.change_phase(victim, Phase.STOPPING)
        self.placed += len(decisions.placements)
        self.evicted += len(decisions.evictions)

    def _member(self, plan: MemberPlan) -> LiveMember:
        allocations = [self._allocation(plan.cluster, wanted) for wanted in plan.allocations]
        return LiveMember(
            0, "", plan.role, plan.index, plan.cluster, plan.node_id, "", "running", allocations
        )

    def _allocation(self, cluster: str, wanted: AllocationPlan) -> LiveAllocation:
        assert wanted.device_id is not None
        device = self.state.touch(wanted.device_id)
        device.held += wanted.quantity
        device.share_kind = wanted.share_kind
        return LiveAllocation(
            0, wanted.device_id, wanted.node_id, cluster, wanted.flavor, wanted.device_class, wanted.quantity,
            ShareKind.EXCLUSIVE, self.now, 1, 1, "nominal", None,
        )  # fmt: skip


__all__ = ["ORG_TREE", "QUEUE_TREE", "Hall"]

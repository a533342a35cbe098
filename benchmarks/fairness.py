"""Long-run shares against weights: three queues with weights 1, 2 and 4 that never run out of work, and ask
in unlike ways (many small jobs, some of 1 to 4 devices, gangs of 1 to 8) for 64 devices that nobody owns.

The product's own core decides (`decide`, a virtual clock); what was used is summed on the policy's grid and
decays as in a server. After a warm-up of three half-lives the device-seconds of each queue are compared with
its weight: `share_error_percent` is the largest deviation from the part due, in per cent of that part.

`error_half_life_s`: one queue has used all devices for three half-lives while the others asked for nothing;
then all ask. How long until the largest deviation of the decayed use is half of what it was.

`evictions_per_admission`: of both runs; fair-share preemption is on, with a minimum run time.
"""

from __future__ import annotations

import argparse
import heapq
import random
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.model.policy import QUEUE_TREE, Limit, Policy, QueueRules, TreeNode
from steelyard.model.resources import DeviceClass
from steelyard.model.units import MINUTE, SECOND
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import (
    ClusterView,
    FlavorView,
    FreeDevices,
    NodeView,
    PendingItem,
    QuotaTree,
    RunningView,
    ShapeGroup,
    Snapshot,
    charge,
    decide,
)
from steelyard.scheduling.history import History, Used, decayed, history_of, start

START = 1_800_000_000_000_000
NODES, DEVICES, WHOLE = 8, 8, 1000
WEIGHTS = {"one": 1000, "two": 2000, "four": 4000}
SIZES = {"one": (1,), "two": (1, 2, 4), "four": (1, 2, 4, 8)}
#: Waiting jobs of each size: the queue with the smallest part asks for the most.
BACKLOG = {"one": 64, "two": 16, "four": 4}
FLAVOR, CLUSTER = "gpu-x", "c"
GRID = 10 * SECOND  # jobs end on it


def tree(count: int) -> QuotaTree:
    """All devices of so many nodes belong to the cohort."""
    nodes = {"all": TreeNode(QUEUE_TREE, "all", "cohort", None)}
    nodes |= {name: TreeNode(QUEUE_TREE, name, "queue", "all") for name in WEIGHTS}
    limits = {("all", "gpu"): Limit(QUEUE_TREE, "all", "gpu", count * DEVICES * WHOLE)}
    return QuotaTree(nodes, limits | {(name, "gpu"): Limit(QUEUE_TREE, name, "gpu", 0) for name in WEIGHTS})


def shape(queue: str, size: int) -> Shape:
    """Members of one device each."""
    request = MemberRequest(((DeviceClass.GPU, WHOLE),))
    return Shape(f"{queue}{size}", queue, queue, (queue,), 0, (("main", size, request),), True)


@dataclass
class House:
    """The books of a small house on virtual time."""

    policy: Policy
    seed: int
    nodes: int = NODES
    now: int = START
    free: dict[int, list[int]] = field(default_factory=dict)
    running: dict[int, RunningView] = field(default_factory=dict)
    waiting: dict[str, deque[PendingItem]] = field(default_factory=dict)
    usage: dict[tuple[str, str], int] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)  # attempt → from when its use is not summed yet
    summed: dict[Used, int] = field(default_factory=dict)  # since the last sum, quantity × µs
    used: dict[str, int] = field(default_factory=dict)  # by queue, quantity × µs
    active: tuple[str, ...] = tuple(WEIGHTS)
    admissions: int = 0
    evictions: int = 0

    def __post_init__(self) -> None:
        self.tree = tree(self.nodes)
        self.random = random.Random(self.seed)
        nodes = range(1, self.nodes + 1)
        self.free = {node: [node * 100 + index for index in range(DEVICES)] for node in nodes}
        shapes = [shape(name, size) for name, sizes in SIZES.items() for size in sizes]
        self.shapes = {of.key: of for of in shapes}
        self.history = history_of(self.tree, self.now, {})
        self.started: dict[Used, int] = {}
        self.ends: list[tuple[int, int]] = []
        self.numbers = 0

    # --- what happens -----------------------------------------------------------------------------
    def run(self, until: int) -> None:
        """Goes on to an instant."""
        step = self.policy.fairness.sampling
        while self.now < until:
            self._ask()
            self._decide()
            grid = self.history.at + step
            self.now = min(until, grid, self.ends[0][0] if self.ends else grid)
            while self.ends and self.ends[0][0] <= self.now:
                attempt = heapq.heappop(self.ends)[1]
                if attempt in self.running:
                    self._release(attempt)
            if self.now == grid:
                self._sum(step)

    def _ask(self) -> None:
        for key, of in self.shapes.items():
            queue = self.waiting.setdefault(key, deque())
            while of.queue in self.active and len(queue) < BACKLOG[of.queue]:
                self.numbers += 1
                queue.append(PendingItem(self.numbers, self.numbers, self.now))

    def _decide(self) -> None:
        decisions = decide(self._snapshot(), self.policy, self.now)
        for eviction in decisions.evictions:
            self.evictions += 1
            victim = self.running[eviction.attempt_id]
            self._release(eviction.attempt_id)
            self.waiting[victim.shape_key].appendleft(
                PendingItem(victim.workload_id, victim.attempt_id, victim.placed_at, self.now)
            )
        for placed in decisions.placements:
            self.admissions += 1
            of = self.shapes[placed.shape_key]
            self.waiting[of.key] = deque(
                item for item in self.waiting[of.key] if item.attempt_id != placed.attempt_id
            )
            self.running[placed.attempt_id] = RunningView(
                placed.attempt_id, placed.workload_id, of.key, of.queue, of.project, 0, self.now,
                placed.members, placed.charges,
            )  # fmt: skip
            self.since[placed.attempt_id] = self.now
            for member in placed.members:
                for allocation in member.allocations:
                    self.free[member.node_id].remove(allocation.device_id or 0)
            self._charge(placed.attempt_id, 1)
            start(self.started, (of.queue, of.project, ""), placed.charges)
            length = self.random.expovariate(1 / (10 * MINUTE)) + MINUTE
            heapq.heappush(self.ends, (-(-int(self.now + length) // GRID) * GRID, placed.attempt_id))
        if decisions.evictions:
            self._decide()

    def _release(self, attempt: int) -> None:
        self._count(attempt)
        self._charge(attempt, -1)
        del self.since[attempt]
        for member in self.running.pop(attempt).members:
            self.free[member.node_id] += [a.device_id for a in member.allocations if a.device_id]

    def _charge(self, attempt: int, sign: int) -> None:
        for item in self.running[attempt].charges:
            quantity = sign * item.quantity
            for node, subject, delta in charge(self.tree, self.usage, item.node, item.subject, quantity):
                self.usage[node, subject] = self.usage.get((node, subject), 0) + delta

    def _count(self, attempt: int) -> None:
        view, held = self.running[attempt], self.now - self.since[attempt]
        for item in view.charges:
            key = (view.queue, view.project, "", item.subject)
            self.summed[key] = self.summed.get(key, 0) + item.quantity * held
            if item.subject == "gpu":
                self.used[view.queue] = self.used.get(view.queue, 0) + item.quantity * held
        self.since[attempt] = self.now

    def _sum(self, step: int) -> None:
        for attempt in self.running:
            self._count(attempt)
        half_life = self.policy.fairness.half_life
        own = decayed(self.history.own, self.summed, step, half_life) if half_life else {}
        self.history = history_of(self.tree, self.now, own)
        self.summed, self.started = {}, {}

    def _snapshot(self) -> Snapshot:
        nodes = {
            node: NodeView(
                node, str(node), CLUSTER, accelerators={FLAVOR: FreeDevices(tuple(sorted(devices)))},
                totals={FLAVOR: DEVICES * WHOLE},
            )
            for node, devices in self.free.items()
        }  # fmt: skip
        groups = tuple(
            ShapeGroup(self.shapes[key], tuple(items), len(items))
            for key, items in self.waiting.items()
            if items
        )
        history = History(
            self.history.at, self.history.own, self.history.nodes, self.history.sums, dict(self.started)
        )
        return Snapshot(
            nodes=nodes, flavors={FLAVOR: FlavorView(FLAVOR, DeviceClass.GPU, CLUSTER)},
            clusters={CLUSTER: ClusterView(CLUSTER, self.now)}, trees={QUEUE_TREE: self.tree},
            usage={QUEUE_TREE: self.usage}, pending=groups, running=dict(self.running), history=history,
        )  # fmt: skip


def deviation(used: Mapping[str, int]) -> float:
    """The largest deviation from the part due, in per cent of it."""
    total, weights = sum(used.values()), sum(WEIGHTS.values())
    parts = (used.get(name, 0) * weights / (total * weight) for name, weight in WEIGHTS.items())
    return max(abs(part - 1) * 100 for part in parts)


def lately(house: House) -> dict[str, int]:
    """Decayed use by queue."""
    return {name: house.history.nodes.get((name, "gpu"), 0) for name in WEIGHTS}


def long_run(made: House, half_lives: int) -> float:
    """`share_error_percent`."""
    half_life = made.policy.fairness.half_life
    made.run(made.now + 3 * half_life)
    before = dict(made.used)
    show = progress("long run", half_lives)
    for done in range(half_lives):
        made.run(made.now + half_life)
        show(done + 1)
    return deviation({name: made.used[name] - before.get(name, 0) for name in WEIGHTS})


def recovery(made: House) -> float:
    """`error_half_life_s`."""
    half_life = made.policy.fairness.half_life
    made.active = ("one",)
    made.run(made.now + 3 * half_life)
    made.active, began, first = tuple(WEIGHTS), made.now, deviation(lately(made))
    while deviation(lately(made)) > first / 2:
        made.run(made.now + made.policy.fairness.sampling)
    return (made.now - began) / SECOND


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the time")
    quick = parser.parse_args().quick
    print(told("fairness"))
    queues = {name: QueueRules(weight=weight) for name, weight in WEIGHTS.items()}
    rules = replace(policy("fairness"), queues=queues)
    steady, after = House(rules, 1), House(rules, 2)
    error, half_life = long_run(steady, 3 if quick else 12), recovery(after)
    admissions = steady.admissions + after.admissions
    emit("fairness", quick, {
        "share_error_percent": error,
        "error_half_life_s": half_life,
        "evictions_per_admission": (steady.evictions + after.evictions) / admissions,
        "admissions": admissions,
        "policy_half_life_s": rules.fairness.half_life / SECOND,
    })  # fmt: skip


if __name__ == "__main__":
    main()

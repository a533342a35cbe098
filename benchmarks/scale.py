"""A large fleet, without a store: 10,000 nodes of 8 devices, 100,000 members that run (of which 40% hold a
part of a device), 50,000 attempts that wait in 2,000 shapes, and 0.2% of what runs ending each second.

A cycle is a snapshot and a decision, as the control loop makes them, ten a second of the fleet's own clock.
`node_change`: a cycle before which a node was cordoned or let work in again. `never_fit`: that a request can
never be held, as a submit is told. `explain`: why one of those that wait does so, decided as the next cycle
would.
Times are of the processor, since other work of the machine is none of ours.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import random
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.hall import Hall
from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.control.collector import tune
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Limit, TreeNode
from steelyard.model.resources import DeviceClass
from steelyard.model.units import HOUR, SECOND
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import QuotaTree, can_ever_fit, decide, explain, with_unbounded_root
from steelyard.services.live_records import LiveAttempt, LiveMember

GPU, CPU, MEMORY = DeviceClass.GPU, DeviceClass.CPU, DeviceClass.MEMORY
MODELS = ("a100", "h100", "l40s", "h20")
COHORTS, QUEUES = 5, 50
CYCLES_A_SECOND = 10
CHURN = 0.002  # of what runs, a second
PEER = {"kai_never_fit_ms": 249_500.0}
RULES = (
    "quota trees of queues (borrowing) and of the organisation, fair shares with decayed use, priorities, "
    "starvation bound, reservations, preemption and reclaim with minimum run time and budgets, best fit, "
    "gangs"
)


class Fleet:
    """The hall and what chance puts into it."""

    def __init__(self, nodes: int, members: int, pending: int, shapes: int) -> None:
        self.chance = random.Random(7)
        self.hall = Hall(policy("fleet"), self._trees(nodes * 8000))
        for number in range(nodes):
            model = MODELS[number % len(MODELS)]
            devices = [(GPU, model, model, 1000)] * 8
            self.hall.node(
                "c", [*devices, (CPU, "cores", "cpu", 256_000), (MEMORY, "ram", "memory", 2_097_152)]
            )
        self.shapes = [self._shape(number) for number in range(shapes)]
        self.members = members
        self.pending = pending
        self._alive: list[LiveAttempt] = []
        self._due: list[tuple[int, int]] = []  # until when, the attempt's id

    def _trees(self, devices: int) -> dict[str, QuotaTree]:
        queues: dict[str, TreeNode] = {"all": TreeNode(QUEUE_TREE, "all", "cohort", None)}
        teams: dict[str, TreeNode] = {}
        limits: dict[tuple[str, str], Limit] = {}
        hard: dict[tuple[str, str], Limit] = {}
        for number in range(COHORTS):
            queues[f"c{number}"] = TreeNode(QUEUE_TREE, f"c{number}", "cohort", "all")
            teams[f"t{number}"] = TreeNode(ORG_TREE, f"t{number}", "team", None)
        for number in range(QUEUES):
            name = f"q{number}"
            queues[name] = TreeNode(QUEUE_TREE, name, "queue", f"c{number % COHORTS}")
            limits[name, "gpu"] = Limit(QUEUE_TREE, name, "gpu", devices // QUEUES, devices // 10)
            teams[f"p{number}"] = TreeNode(ORG_TREE, f"p{number}", "project", f"t{number % COHORTS}")
            teams[f"ns-p{number}"] = TreeNode(ORG_TREE, f"ns-p{number}", "namespace", f"p{number}")
            hard[f"p{number}", "gpu"] = Limit(ORG_TREE, f"p{number}", "gpu", 0, devices // 10)
        return {
            QUEUE_TREE: QuotaTree(queues, limits),
            ORG_TREE: with_unbounded_root(ORG_TREE, teams, hard, "installation"),
        }

    def _shape(self, number: int) -> Shape:
        """40% of the members of all shapes hold a part of a device."""
        chance = self.chance
        queue = number % QUEUES
        part = chance.random() < 0.65  # gangs have many members
        gpu = chance.choice((250, 500)) if part else 1000
        count = 1 if part else chance.choice((1, 1, 1, 2, 4, 8))
        flavors = (chance.choice(MODELS),) if chance.random() < 0.3 else ()
        amounts = ((CPU, gpu * 8), (GPU, gpu), (MEMORY, gpu * 64))
        size = chance.choice(("small", "small", "medium", "large"))
        path = (f"ns-p{queue}", f"p{queue}", f"t{queue % COHORTS}")
        priority = {"small": 50, "medium": 100, "large": 200}[size]
        role = ("main", count, MemberRequest(tuple(sorted(amounts)), flavors))
        limit = chance.choice((None, None, HOUR, 8 * HOUR))
        return Shape(
            f"s{number}", f"q{queue}", f"p{queue}", path, priority, (role,), True, "training", "dev", size,
            f"us{number % 200}", limit,
        )  # fmt: skip

    def fill(self) -> None:
        """Lets work start until there are so many members or nothing more fits, then lets the rest wait."""
        hall, running = self.hall, 0
        bar = progress("members running", self.members)
        hall.now -= 10 * HOUR
        idle = 0
        while running < self.members and idle < 10:
            for _ in range(500):
                hall.submit(self.chance.choice(self.shapes))
            hall.now += SECOND
            hall.observe()
            decisions = hall.cycle()
            idle = 0 if decisions.placements else idle + 1
            running += sum(len(placement.members) for placement in decisions.placements)
            bar(running)
        hall.now += 10 * HOUR
        for attempt in hall.state.attempts.values():
            if attempt.members and attempt.shape.time_limit is not None:
                hall.began(attempt, hall.now - self.chance.randrange(attempt.shape.time_limit))
        self.started([attempt for attempt in hall.state.attempts.values() if attempt.members])
        hall.remember()
        for number in range(self.pending - hall.state.waiting_count):
            shape = self.shapes[number % len(self.shapes)]
            hall.submit(shape, hall.now - self.chance.randrange(HOUR))
        hall.observe()

    def churn(self) -> None:
        """A tenth of a second of it: what runs ends, at its limit at the latest, and as much comes anew."""
        hall, alive = self.hall, self._alive
        share = len(alive) * CHURN / CYCLES_A_SECOND
        count = int(share) + (self.chance.random() < share % 1)
        while self._due and self._due[0][0] <= hall.now:
            _, attempt = heapq.heappop(self._due)
            count -= self._end(attempt)
        while count > 0 and alive:
            at = self.chance.randrange(len(alive))
            alive[at], alive[-1] = alive[-1], alive[at]
            count -= self._end(alive.pop().attempt_id)

    def _end(self, attempt_id: int) -> bool:
        attempt = self.hall.state.attempts.get(attempt_id)
        if attempt is None or not attempt.members:
            return False
        self.hall.end(attempt)
        self.hall.submit(self.chance.choice(self.shapes))
        return True

    def started(self, attempts: Iterable[LiveAttempt]) -> None:
        """These run, and end within their time limits."""
        for attempt in attempts:
            self._alive.append(attempt)
            if attempt.shape.time_limit is not None:
                until = (attempt.times["placed"] or 0) + attempt.shape.time_limit
                heapq.heappush(self._due, (until, attempt.attempt_id))


def _gpu(member: LiveMember) -> int:
    return sum(held.quantity for held in member.allocations if held.device_class is GPU)


def timed(act: Callable[[], object]) -> float:
    """Milliseconds of the processor."""
    begun = time.process_time_ns()
    act()
    return (time.process_time_ns() - begun) / 1e6


def quantile(values: Sequence[float], part: float) -> float:
    """Of a few values, the one below which so much lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


def cycles(fleet: Fleet, count: int, quiet: bool = False) -> list[float]:
    """So many cycles under churn; ms each."""
    hall, found = fleet.hall, []
    bar = (lambda _: None) if quiet else progress("cycles", count)
    for number in range(count):
        hall.now += SECOND // CYCLES_A_SECOND
        hall.observe()
        fleet.churn()
        before = hall.snapshot_ns + hall.decide_ns
        decisions = hall.cycle()
        found.append((hall.snapshot_ns + hall.decide_ns - before) / 1e6)
        fleet.started([hall.state.attempts[placement.attempt_id] for placement in decisions.placements])
        for eviction in decisions.evictions:
            hall.requeue(hall.state.attempts[eviction.attempt_id])
        bar(number + 1)
    return found


def changes(fleet: Fleet, count: int) -> list[float]:
    """Cycles before each of which a node is cordoned, or lets work in again; ms each."""
    found: list[float] = []
    nodes = fleet.chance.sample(sorted(fleet.hall.state.nodes), (count + 1) // 2)
    for number in range(count):
        fleet.hall.cordon(nodes[number // 2], is_cordoned=number % 2 == 0)
        found += cycles(fleet, 1, quiet=True)
    return found


def reserved(fleet: Fleet) -> tuple[int, int]:
    """How many reservations the next cycle makes, and how far ahead (s) the last of them is."""
    state, now = fleet.hall.state, fleet.hall.now
    found = decide(state.snapshot(), state.policy, now).reservations
    return len(found), max((made.starts_at - now for made in found), default=0) // SECOND


def settle(fleet: Fleet, most: int = 300) -> int:
    """Cycles until what could start at once has started and its reasons are told; how many it took."""
    for number in range(most):
        placed = fleet.hall.placed
        cycles(fleet, 1, quiet=True)
        if fleet.hall.placed - placed < 3 + len(fleet.hall.state.attempts) // 5000:
            return number + 1
    return most


def main() -> None:
    """Fills the fleet, then measures."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a twentieth of the fleet")
    quick = arguments.parse_args().quick
    part = 20 if quick else 1
    fleet = Fleet(10_000 // part, 100_000 // part, 50_000 // part, 2_000 // part)
    print(told("fleet"))
    print(f"rules that are on: {RULES}")
    fleet.fill()
    tune()
    gc.freeze()
    state = fleet.hall.state
    parts = sum(1 for a in state.attempts.values() for m in a.members if _gpu(m) < 1000)
    members = sum(len(a.members) for a in state.attempts.values())
    print(
        f"{len(state.nodes):,} nodes, {members:,} members, {100 * parts // max(1, members)}% fractions, "
        f"{state.waiting_count:,} wait in {len(state.waiting_shapes()):,} shapes"
    )
    warmed = settle(fleet)
    print(f"{warmed} cycles until no more starts than what ends makes room for")
    found = cycles(fleet, 60 if quick else 200)
    made, horizon = reserved(fleet)
    print(f"{made} reservations in the last cycle, up to {horizon} s ahead")
    recast = changes(fleet, 10 if quick else 20)
    snapshot, follows, now = state.snapshot(), state.policy, fleet.hall.now
    huge = [
        Shape(f"n{n}", f"q{n % QUEUES}", f"p{n % QUEUES}", (f"ns-p{n % QUEUES}",), 100,
              (("main", 1000 + n, MemberRequest(((GPU, 16_000),))),), True)
        for n in range(20 if quick else 100)
    ]  # fmt: skip
    nevers = [timed(lambda of=of: can_ever_fit(snapshot, follows, of)) for of in huge]  # type: ignore[misc]
    waiting = list(state.waiting_shapes().values())[: 20 if quick else 100]
    whys = [timed(lambda of=of: explain(snapshot, follows, now, of)) for of in waiting]  # type: ignore[misc]
    emit("scale", quick, {
        "cycle_p50_ms": quantile(found, 0.5),
        "cycle_p99_ms": quantile(found, 0.99),
        "node_change_p50_ms": quantile(recast, 0.5),
        "node_change_p99_ms": quantile(recast, 0.99),
        "never_fit_p99_ms": quantile(nevers, 0.99),
        "explain_p50_ms": quantile(whys, 0.5),
        "explain_p99_ms": quantile(whys, 0.99),
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }, PEER)  # fmt: skip


if __name__ == "__main__":
    main()

"""Decisions a second, without a store: how fast work is placed when all that it costs is thinking.

`quota_only_per_s`: thirty queues in five cohorts, 15,000 workloads as in Kueue's baseline (small, medium and
large ones by priority, borrowing within the cohort), on nodes that always have room. `all_rules_per_s`: the
same queues under every rule at once (fair shares with a memory, limits of teams and projects and of flavors,
reservations, preemption and reclaim, best fit), with fractions, gangs and two models on nodes that are full.

Counted is the processor time of making snapshots and deciding, for each attempt that was placed; booking is
the store's part, and printed beside it. The garbage collector is set as the server sets it.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
from collections import deque
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.hall import Hall
from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.control.collector import tune
from steelyard.model.policy import ORG_TREE, QUEUE_TREE, Limit, TreeNode
from steelyard.model.resources import DeviceClass
from steelyard.model.units import MINUTE, SECOND
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import QuotaTree, with_unbounded_root
from steelyard.services.live_records import LiveAttempt

GPU, CPU, MEMORY = DeviceClass.GPU, DeviceClass.CPU, DeviceClass.MEMORY
COHORTS, QUEUES = 5, 6
#: class → (units, how many of a queue's 500, priority)
BASELINE = {"small": (1, 350, 50), "medium": (5, 100, 100), "large": (20, 50, 200)}


def queue_names() -> list[tuple[str, str]]:
    """(queue, cohort)."""
    return [(f"q{c}-{q}", f"c{c}") for c in range(COHORTS) for q in range(QUEUES)]


def queue_tree(limits: dict[tuple[str, str], Limit]) -> QuotaTree:
    """Five cohorts of six queues."""
    nodes = {f"c{c}": TreeNode(QUEUE_TREE, f"c{c}", "cohort", None) for c in range(COHORTS)}
    nodes |= {queue: TreeNode(QUEUE_TREE, queue, "queue", cohort) for queue, cohort in queue_names()}
    return QuotaTree(nodes, limits)


def org_tree(limits: dict[tuple[str, str], Limit]) -> QuotaTree:
    """A team for each cohort, a project and a namespace for each queue."""
    nodes: dict[str, TreeNode] = {}
    for queue, cohort in queue_names():
        nodes[f"team-{cohort}"] = TreeNode(ORG_TREE, f"team-{cohort}", "team", None)
        nodes[f"p-{queue}"] = TreeNode(ORG_TREE, f"p-{queue}", "project", f"team-{cohort}")
        nodes[f"ns-{queue}"] = TreeNode(ORG_TREE, f"ns-{queue}", "namespace", f"p-{queue}")
    return with_unbounded_root(ORG_TREE, nodes, limits, "installation")


def shape(key: str, queue: str, cohort: str, size: str, request: MemberRequest, count: int = 1) -> Shape:
    """One of a queue's shapes."""
    path = (f"ns-{queue}", f"p-{queue}", f"team-{cohort}")
    return Shape(
        key, queue, f"p-{queue}", path, BASELINE[size][2], (("main", count, request),), True, "training",
        "dev", size, f"us-{queue}", 10 * MINUTE,
    )  # fmt: skip


def quota_hall() -> Hall:
    """CPU by quota alone."""
    limits = {
        (queue, "cpu"): Limit(QUEUE_TREE, queue, "cpu", 20_000, 100_000) for queue, _ in queue_names()
    }
    hall = Hall(policy("quota-only"), {QUEUE_TREE: queue_tree(limits), ORG_TREE: org_tree({})})
    for _ in range(50):
        hall.node("c", [(CPU, "cores", "cpu", 64_000)])
    return hall


def quota_shapes() -> list[tuple[Shape, int]]:
    """Each queue's three, with how many there are of them."""
    found = []
    for queue, cohort in queue_names():
        for size, (units, count, _) in BASELINE.items():
            request = MemberRequest(((CPU, units * 1000),))
            found.append((shape(f"{queue}/{size}", queue, cohort, size, request), count))
    return found


def ruled_hall() -> Hall:
    """Accelerators under every rule."""
    limits: dict[tuple[str, str], Limit] = {}
    organisation: dict[tuple[str, str], Limit] = {}
    for queue, cohort in queue_names():
        limits[queue, "gpu"] = Limit(QUEUE_TREE, queue, "gpu", 20_000, 100_000, 15_000)
        limits[queue, "flavor/h100"] = Limit(QUEUE_TREE, queue, "flavor/h100", 4_000)
        organisation[f"p-{queue}", "gpu"] = Limit(ORG_TREE, f"p-{queue}", "gpu", 0, 60_000)
        organisation[f"team-{cohort}", "gpu"] = Limit(ORG_TREE, f"team-{cohort}", "gpu", 0, 150_000)
    hall = Hall(policy("all-rules"), {QUEUE_TREE: queue_tree(limits), ORG_TREE: org_tree(organisation)})
    for number in range(75):
        flavor = "h100" if number % 5 == 0 else "a100"
        devices = [(GPU, flavor, flavor, 1000)] * 8
        hall.node("c", [*devices, (CPU, "cores", "cpu", 128_000), (MEMORY, "ram", "memory", 1_048_576)])
    return hall


def ruled_shapes() -> list[tuple[Shape, int]]:
    """Fractions, whole devices and gangs; a part of them names a model."""
    found = []
    for number, (queue, cohort) in enumerate(queue_names()):
        flavors = ("h100", "a100") if number % 3 == 0 else ()
        for size, gpu, count, of in (
            ("small", 500, 1, 250), ("small", 1000, 1, 100), ("medium", 1000, 4, 100), ("large", 8000, 2, 50)
        ):  # fmt: skip
            amounts = ((CPU, gpu * 8), (GPU, gpu), (MEMORY, gpu * 16))
            request = MemberRequest(tuple(sorted(amounts)), flavors if size != "large" else ())
            found.append((shape(f"{queue}/{gpu}x{count}", queue, cohort, size, request, count), of))
    return found


def run(hall: Hall, shapes: list[tuple[Shape, int]], scale: int) -> dict[str, float]:
    """All of it, a cycle a hundredth of a second; what was placed ends after a few cycles."""
    chance = random.Random(1)
    work = [of for of, count in shapes for _ in range(count // scale)]
    chance.shuffle(work)
    for number, of in enumerate(work):
        hall.submit(of, hall.now - len(work) + number)
    hall.remember()
    running: deque[tuple[int, LiveAttempt]] = deque()
    bar = progress("placed", len(work))
    cycle = done = 0
    while done < len(work):
        cycle += 1
        hall.now += SECOND // 100
        hall.observe()
        decisions = hall.cycle()
        for placement in decisions.placements:
            ends = cycle + 1 + placement.attempt_id % 3
            running.append((ends, hall.state.attempts[placement.attempt_id]))
        for eviction in decisions.evictions:
            victim = hall.state.attempts[eviction.attempt_id]
            running = deque(entry for entry in running if entry[1] is not victim)
            hall.requeue(victim)
        for entry in [entry for entry in running if entry[0] <= cycle]:
            running.remove(entry)
            hall.end(entry[1])
            done += 1
        bar(done)
        assert cycle < 100_000, "it does not come to an end"
    spent = hall.snapshot_ns + hall.decide_ns
    print(
        f"{len(work):,} workloads in {cycle:,} cycles, {hall.placed:,} placed, {hall.evicted:,} evicted: "
        f"snapshots {hall.snapshot_ns / 1e9:.2f} s, decide {hall.decide_ns / 1e9:.2f} s, "
        f"booking {hall.book_ns / 1e9:.2f} s"
    )
    return {"per_s": hall.placed * 1e9 / spent, "placements_a_cycle": hall.placed / cycle}


def main() -> None:
    """Both, then one JSON line."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="a fifth of the work")
    quick = arguments.parse_args().quick
    scale = 5 if quick else 1
    tune()
    print(told("quota-only"))
    quota = run(quota_hall(), quota_shapes(), scale)
    print(told("all-rules"))
    ruled = run(ruled_hall(), ruled_shapes(), scale)
    emit("decisions", quick, {
        "quota_only_per_s": quota["per_s"],
        "all_rules_per_s": ruled["per_s"],
        "quota_only_us": 1e6 / quota["per_s"],
        "all_rules_us": 1e6 / ruled["per_s"],
        "rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    })  # fmt: skip


if __name__ == "__main__":
    main()

"""Gangs of 1 to 32 GPUs in the queue of one cluster: mean completion time with and without known lengths.

Two virtual clusters of the Philly trace, on 8 nodes of 8 GPUs, on a virtual clock (see `philly`). First the
published means of shortest remaining time and shortest remaining service are made anew; then the product's
own `decide` ranks and places, once knowing how long each job takes (`timeLimit`, precedence ShortestFirst)
and once knowing nothing of it (LeastServed). `--quick`: only the smaller cluster through `decide`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks import philly
from benchmarks.philly import GPUS, NODES, Job
from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.model.policy import Policy
from steelyard.model.resources import DeviceClass
from steelyard.model.workloads import MemberRequest, Shape
from steelyard.scheduling import (
    ClusterView,
    FlavorView,
    FreeDevices,
    NodeView,
    PendingItem,
    ShapeGroup,
    Snapshot,
    decide,
)

WHOLE = 1000
#: Means published by Muri that ours are laid beside, and how near ours must come to the first two.
PEERS = ("SRTF", "SRSF", "Tiresias")
NEAR = 0.001
#: On which trace, and in which orders of arrival, it is shown that no profile is made for one order.
OTHER_TRACE, OTHER_SEEDS = 3, (1, 2, 3)


class Core:
    """Fills the cluster by the product's decision core: all that is unfinished waits, what fits is placed."""

    def __init__(self, rules: Policy, sized: bool) -> None:
        self.rules = rules
        self.sized = sized
        self.busy_s = 0.0
        self.calls = 0
        nodes = {
            number: NodeView(
                number, f"n{number}", "philly",
                accelerators={"gpu": FreeDevices(tuple(range(number * 100, number * 100 + GPUS)))},
                totals={"gpu": GPUS * WHOLE},
            )
            for number in range(1, NODES + 1)
        }  # fmt: skip
        flavors = {"gpu": FlavorView("gpu", DeviceClass.GPU, "philly", model="gpu")}
        self.base = Snapshot(nodes=nodes, flavors=flavors)
        self._shapes: dict[str, Shape] = {}

    def __call__(self, now: int, live: Sequence[Job]) -> list[Job]:
        """Those that are placed."""
        heads: dict[str, list[PendingItem]] = {}
        for job in live:
            served = job.length - job.remaining if self.sized else job.held
            item = PendingItem(job.number, job.number, job.submitted, job.waits_since, served=served)
            heads.setdefault(self._shape(job).key, []).append(item)
        groups = (ShapeGroup(self._shapes[key], tuple(items), len(items)) for key, items in heads.items())
        snapshot = replace(
            self.base,
            clusters={"philly": ClusterView("philly", now)},
            pending=tuple(groups),
            last_looked=dict.fromkeys(heads, now),  # why the rest waits is not asked here
        )
        began = time.perf_counter()
        placements = decide(snapshot, self.rules, now).placements
        self.busy_s += time.perf_counter() - began
        self.calls += 1
        placed = {placement.attempt_id for placement in placements}
        return [job for job in live if job.number in placed]

    def _shape(self, job: Job) -> Shape:
        limit = job.length if self.sized else None
        key = f"{job.gpus}-{limit}"
        known = self._shapes.get(key)
        if known is None:
            each = min(job.gpus, GPUS)
            request = MemberRequest(((DeviceClass.GPU, each * WHOLE),))
            roles = (("main", job.gpus // each, request),)
            known = Shape(key, "queue", "project", ("project",), 0, roles, True, time_limit=limit)
            self._shapes[key] = known
        return known


def reproduced(trace: int) -> dict[str, float]:
    """The published means made anew, and by how much they differ. Exits where they differ by too much."""
    means = philly.published()
    found = {}
    for name, fill in (("SRTF", philly.srtf), ("SRSF", philly.srsf)):
        work = philly.jobs(trace)
        philly.run(work, fill)
        mean = philly.mean_s(work)
        off = mean / means[trace, name] - 1
        beside = f"published {means[trace, name]:,.1f} ({100 * off:+.3f} %)"
        print(f"trace {trace} {name}: {mean:,.1f} s, {beside}")
        if abs(off) > NEAR:
            raise SystemExit(f"{name} of trace {trace} is not reproduced")
        found[f"trace{trace}_{name.lower()}_s"] = mean
    return found


def measured(trace: int, sized: bool) -> dict[str, float]:
    """What the core reaches on one trace."""
    name = "gang-sized" if sized else "gang-blind"
    print(told(name))
    core, work = Core(policy(name), sized), philly.jobs(trace)
    show: Callable[[int], None] = progress(f"trace {trace} {name}", len(work))
    philly.run(work, core, show)
    label = f"trace{trace}_{'sized' if sized else 'blind'}"
    return {
        f"{label}_s": philly.mean_s(work),
        f"{label}_wide_wait_s": philly.wide_wait_s(work),
        f"{label}_decide_ms": 1000 * core.busy_s / core.calls,
    }


def elsewhere(trace: int) -> dict[str, float]:
    """On jobs that come in other orders: how often as long as by shortest remaining service it takes, knowing
    nothing of lengths; the mean of three orders, and beside it the same of the trace's own order."""
    found = {}
    for name, loads in (
        ("blind_of_srsf", [lambda: philly.jobs(trace)]),
        ("other_blind_of_srsf", [partial(philly.otherwise, trace, seed) for seed in OTHER_SEEDS]),
    ):
        parts = []
        for load in loads:
            best, own = load(), load()
            philly.run(best, philly.srsf)
            philly.run(own, Core(policy("gang-blind"), sized=False))
            parts.append(philly.mean_s(own) / philly.mean_s(best))
        found[f"trace{trace}_{name}"] = sum(parts) / len(parts)
        print(f"trace {trace} {name}: {found[f'trace{trace}_{name}']:.3f}")
    return found


def main() -> None:
    """Both traces, or with --quick only the smaller one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    found: dict[str, float] = {}
    for trace in (1, 3):
        found |= reproduced(trace)
    for trace in (3,) if quick else (1, 3):
        for sized in (False, True):
            found |= measured(trace, sized)
    found |= elsewhere(OTHER_TRACE)
    waits = [value for key, value in found.items() if key.endswith("_wide_wait_s")]
    means = philly.published()
    peers = {f"trace{t}_{name.lower()}_published_s": means[t, name] for t in (1, 3) for name in PEERS}
    emit("gang_queue", quick, {**found, "wide_wait_max_s": max(waits)}, peers)


if __name__ == "__main__":
    main()

"""Who runs on which model: Gavel's stream of training jobs on three unlike GPUs, in rounds.

The product's own core decides each round in which a job has come or gone: all unfinished jobs wait, all GPUs
are free, one call of `decide` under the policy `models=Advantage`, which knows how fast each job runs on each
model and, where lengths are given as time limits, how long it takes at best. A job that changes the model
loses 60 s. Three seeds, at 4.8, 5.2 and 5.6 jobs an hour; mean completion time of the jobs 4,000 to 4,999.

`--quick`: one seed and 5.2 jobs an hour, the jobs 200 to 299 (a fleet that is still filling up: lower
figures, not to be compared with the published ones). Beside it AlloX, which knows lengths, in the same run,
with allocations no sooner than every 1,920 s as its published figures have them. Gavel's own LAS is quoted
only: its linear programme leaves open who gets what is left beyond the least share, so that its mean rests on
the solver's choice of one of many optima.
Virtual time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.allox import EVERY, Allox
from benchmarks.gavel import EACH, MODELS, Job, Outcome, published, run, stream
from benchmarks.policies import policy, told
from benchmarks.support import emit, progress
from steelyard.model.resources import DeviceClass
from steelyard.model.units import DAY, SECOND
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

RATES = ("4.8", "5.2", "5.6")
SEEDS = (0, 1, 2)
WINDOW, QUICK_WINDOW = (4_000, 5_000), (200, 300)
AFTER = 1_200  # jobs that still come while the last of the window run
START = 1_800_000_000_000_000
PROFILE = "mixed-fleet"
POLICY = policy(PROFILE)
REQUEST = MemberRequest(((DeviceClass.GPU, 1000),))


class Core:
    """The product's core; with `lengths` each job's shortest running time is its time limit."""

    def __init__(self, jobs: Sequence[Job], lengths: bool) -> None:
        self.jobs = jobs
        self.shapes = [self._shape(job, lengths) for job in jobs]
        nodes = [
            NodeView(
                number, f"n{number}", "c",
                accelerators={model: FreeDevices(tuple(range(number * 100, number * 100 + EACH)))},
                totals={model: EACH * 1000},
            )
            for number, model in enumerate(MODELS)
        ]  # fmt: skip
        self.base = Snapshot(
            nodes={node.id: node for node in nodes},
            flavors={model: FlavorView(model, DeviceClass.GPU, "c", model=model) for model in MODELS},
            clusters={"c": ClusterView("c", START)},
        )

    @staticmethod
    def _shape(job: Job, lengths: bool) -> Shape:
        best = min(job.needs)
        fast = tuple((name, round(1000 * best / need)) for name, need in zip(MODELS, job.needs, strict=True))
        limit = round(best * SECOND) if lengths else None
        key = f"{job.number:06}" if lengths else job.kind
        return Shape(key, "q", "p", (), 0, (("main", 1, REQUEST),), True, time_limit=limit, speeds=fast)

    def __call__(self, waiting: Sequence[int]) -> Mapping[int, int]:
        """What `decide` places."""
        heads: dict[str, list[PendingItem]] = {}
        shapes: dict[str, Shape] = {}
        for number in waiting:
            shape = self.shapes[number]
            shapes[shape.key] = shape
            submitted = START - 100 * DAY + round(self.jobs[number].arrival * SECOND)
            heads.setdefault(shape.key, []).append(PendingItem(number, number, submitted))
        groups = tuple(ShapeGroup(shapes[key], tuple(items), len(items)) for key, items in heads.items())
        looked = dict.fromkeys(shapes, START)  # reasons are not the matter
        snapshot = Snapshot(
            nodes=self.base.nodes, flavors=self.base.flavors, clusters=self.base.clusters, pending=groups,
            last_looked=looked,
        )  # fmt: skip
        placed = decide(snapshot, POLICY, START).placements
        return {each.attempt_id: each.members[0].node_id for each in placed}


def outcomes(rate: str, seeds: Sequence[int], window: tuple[int, int], name: str) -> list[Outcome]:
    """One policy at one rate, a run a seed."""
    found = []
    for seed in seeds:
        jobs = stream(seed, float(rate), window[1] + AFTER)
        if name == "allox_":
            found.append(run(jobs, Allox(jobs), *window, every=EVERY))
        else:
            found.append(run(jobs, Core(jobs, lengths=name == ""), *window))
    return found


def main() -> None:
    """All rates: with lengths, without, and AlloX."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, one rate, early jobs")
    quick = parser.parse_args().quick
    seeds, window = (SEEDS[:1], QUICK_WINDOW) if quick else (SEEDS, WINDOW)
    rates = RATES[1:2] if quick else RATES
    reported = published()
    metrics: dict[str, float | None] = {}
    peers: dict[str, float] = {}
    print(f"{EACH} each of {', '.join(MODELS)}; jobs {window[0]:,} to {window[1] - 1:,}; {told(PROFILE)}")
    bar, done = progress("runs", 3 * len(rates)), 0
    for rate in rates:
        for name in ("", "nolengths_", "allox_"):
            found = outcomes(rate, seeds, window, name)
            key = f"{name}jct_{rate.replace('.', '_')}_h"
            metrics[key] = mean(each.mean_h for each in found)
            print(
                f"{key:>20}: {metrics[key]:6.2f} h,"
                f" 99th percentile {mean(each.p99_h for each in found):6.1f} h,"
                f" {mean(each.moves for each in found):4.2f} moves a job"
            )
            done += 1
            bar(done)
        if not quick:
            peers |= {f"allox_published_{rate.replace('.', '_')}_h": reported["AlloX", rate]}
            peers |= {f"gavel_las_published_{rate.replace('.', '_')}_h": reported["Gavel-LAS", rate]}
    emit("mixed_fleet", quick, metrics, peers)


if __name__ == "__main__":
    main()

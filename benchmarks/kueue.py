"""Kueue's own performance work (its generator's configurations `baseline` and `large-scale`) as our
benchmarks take it: who is submitted when, the queues as documents, the least time that any scheduler needs.

A unit is one core. Each queue owns 20 and may borrow 100 within its cohort.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from steelyard.model.units import MILLISECOND, SECOND

NOMINAL, BORROWING = 20, 100


@dataclass(frozen=True)
class Size:
    """One class of a queue's workloads."""

    name: str
    count: int
    units: int
    runs: int  # µs
    every: int  # µs between two


@dataclass(frozen=True)
class Load:
    """A configuration of the generator."""

    name: str
    cohorts: int
    queues: int
    sizes: tuple[Size, ...]
    seed: int | None = None  # arrivals at random instants of the same span; None: at equal distances

    @property
    def names(self) -> list[tuple[str, str]]:
        """(queue, cohort)."""
        return [(f"q{c}-{q}", f"c{c}") for c in range(self.cohorts) for q in range(self.queues)]

    @property
    def total(self) -> int:
        """How many workloads in all."""
        return len(self.names) * sum(size.count for size in self.sizes)

    @property
    def bound_s(self) -> float:
        """Work ÷ capacity, in seconds: nobody can be done earlier."""
        return sum(size.count * size.units * size.runs for size in self.sizes) / NOMINAL / SECOND

    def arrivals(self) -> list[tuple[int, str, Size]]:
        """(µs since the beginning, queue, what) in order; all queues alike, or each as its dice fall."""
        dice = None if self.seed is None else random.Random(self.seed)
        found = [
            (_instant(size, number, dice), queue, size)
            for queue, _ in self.names
            for size in self.sizes
            for number in range(size.count)
        ]
        found.sort(key=lambda each: each[0])
        return found


def _instant(size: Size, number: int, dice: random.Random | None) -> int:
    """When it comes (µs): at equal distances, or anywhere in the same span."""
    return (number + 1) * size.every if dice is None else dice.randint(0, size.count * size.every)


def _sizes(counts: tuple[int, int, int], runs: tuple[int, ...], every: tuple[int, ...]) -> tuple[Size, ...]:
    return tuple(
        Size(name, count, units, run * MILLISECOND, each * MILLISECOND)
        for name, units, count, run, each in zip(
            ("small", "medium", "large"), (1, 5, 20), counts, runs, every, strict=True
        )
    )


BASELINE = Load("baseline", 5, 6, _sizes((350, 100, 50), (200, 500, 1000), (100, 500, 1200)))
LARGE = Load("large-scale", 10, 100, _sizes((35, 11, 4), (150, 350, 700), (60, 300, 700)))
#: A short run of the same kind: a tenth of the time.
QUICK = Load("baseline, a tenth", 5, 6, _sizes((35, 10, 5), (200, 500, 1000), (100, 500, 1200)))
#: The same work that comes at random: no profile is made for the generator's even distances.
OTHER, OTHER_QUICK = (replace(load, name=f"{load.name}, at random", seed=1) for load in (BASELINE, QUICK))
#: Published by its authors: seconds in all, and mean seconds until admission.
PUBLISHED = {"kueue_wall_s": 351.0, "kueue_small_s": 215.5, "kueue_medium_s": 76.8, "kueue_large_s": 16.5}
PUBLISHED_LARGE = {"kueue_wall_s": 1179.0}


def documents(load: Load) -> list[dict[str, Any]]:
    """A simulated cluster, the queues, a namespace and routes for each. Its nodes have twice what the queues
    own, so that quota alone is short: where Kueue was measured there are no nodes that could be too full."""
    cores = 2 * len(load.names) * NOMINAL
    return [*yaml.safe_load_all(_SITE.format(nodes=-(-cores // 60))), *_queues(load)]


def _queues(load: Load) -> Iterator[dict[str, Any]]:
    for cohort in sorted({cohort for _, cohort in load.names}):
        yield _document("Cohort", cohort, {"limits": []})
    routes = []
    for queue, cohort in load.names:
        limit = {"class": "cpu", "nominal": NOMINAL, "borrowingLimit": BORROWING}
        yield _document("Queue", queue, {"cohort": cohort, "owner": "platform", "limits": [limit]})
        yield _document("Project", f"p-{queue}", {"team": "all"})
        yield _document("Namespace", f"n-{queue}", {"project": f"p-{queue}"})
        # the highest class: whoever may have it may ask for a lower one, so one route a queue does
        routes.append({"queue": queue, "project": f"p-{queue}", "priorityClass": load.sizes[-1].name})
    yield _document("Routing", "default", {"routes": routes})


def workload(number: int, queue: str, size: Size) -> dict[str, Any]:
    """The document of one workload."""
    role = {
        "name": "main", "command": ["train"], "requests": {"cpu": size.units},
        "expect": {"run": f"{size.runs // MILLISECOND}ms"},
    }  # fmt: skip
    spec = {"kind": "training", "priorityClass": size.name, "roles": [role]}
    return {
        "kind": "Workload", "metadata": {"name": f"w{number}", "namespace": f"n-{queue}"}, "spec": spec
    }  # fmt: skip


def _document(kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name}, "spec": spec}


def means(waits: Iterable[tuple[str, int]]) -> dict[str, float]:
    """Mean seconds until admission by size, of (size, µs)."""
    found: dict[str, list[int]] = {}
    for name, wait in waits:
        found.setdefault(name, []).append(wait)
    return {name: sum(each) / len(each) / SECOND for name, each in found.items()}


_SITE = """
kind: Cluster
metadata: {{name: sim}}
spec:
  engine: simulated
  simulation:
    nodes: [{{count: {nodes}, prefix: n, cpu: "60", memory: 64Gi}}]
    timing: {{provision: 0, image: 0, environment: 0, launch: 0, stop: 0, release: 0}}
---
kind: Pool
metadata: {{name: pool}}
spec: {{cluster: sim, owner: platform, flavors: [{{name: cores, class: cpu}}, {{name: ram, class: memory}}]}}
---
kind: Team
metadata: {{name: all}}
spec: {{}}
"""

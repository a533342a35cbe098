"""Gavel's continuous stream of single-GPU jobs on 36 V100, 36 P100 and 36 K80, in rounds of six minutes.

Jobs and gaps are drawn as Gavel's generator draws them (OSDI '20), so that a seed means the same stream. A
round begins with what has arrived; a job that ends within a round leaves its GPU free until the next one.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DATA = Path(__file__).resolve().parent / "data"
MODELS = ("v100", "p100", "k80")
EACH = 36
ROUND = 360.0  # s
MOVE = 60.0  # s that a job loses when it changes the model
#: In the generator's order.
JOB_TYPES = (
    *(f"ResNet-18 (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"ResNet-50 (batch size {size})" for size in (16, 32, 64, 128)),
    *(f"Transformer (batch size {size})" for size in (16, 32, 64, 128, 256)),
    *(f"LM (batch size {size})" for size in (5, 10, 20, 40, 80)),
    *(f"Recommendation (batch size {size})" for size in (512, 1024, 2048, 4096, 8192)),
    "CycleGAN",
    "A3C",
)
#: Of the jobs that have not ended: which model each has in this round, those without one left out.
Choose = Callable[[Sequence[int]], Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class Job:
    """When it comes, of which type it is, and how many seconds it would take on each model."""

    number: int
    arrival: float
    kind: str
    needs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of the jobs that count."""

    mean_h: float
    p99_h: float
    moves: float  # a job
    decisions: int


def speeds() -> dict[str, tuple[float, ...]]:
    """By job type, steps a second on each model; 0: it does not run there."""
    with (DATA / "gavel_speeds.csv").open(encoding="utf-8") as file:
        return {row["job_type"]: tuple(float(row[model]) for model in MODELS) for row in csv.DictReader(file)}


def published() -> dict[tuple[str, str], float]:
    """(policy, jobs an hour) → mean completion in hours, as Gavel's authors report them."""
    with (DATA / "gavel_published.csv").open(encoding="utf-8") as file:
        return {(row["policy"], row["jobs_per_hour"]): float(row["hours"]) for row in csv.DictReader(file)}


def stream(seed: int, per_hour: float, count: int) -> list[Job]:
    """The first jobs of a seed's stream."""
    jobs, gaps, fast = random.Random(seed + 2), random.Random(seed + 3), speeds()
    at, found = 0.0, []
    for number in range(count):
        jobs.uniform(0, 1)  # how many GPUs: always one
        minutes = 10 ** (jobs.uniform(3, 4) if jobs.random() >= 0.8 else jobs.uniform(1.5, 3))
        kind = jobs.choice(JOB_TYPES)
        steps = minutes * 60 * fast[kind][0]
        needs = tuple(steps / speed if speed > 0 else math.inf for speed in fast[kind])
        found.append(Job(number, at, kind, needs))
        at += -math.log(1 - gaps.random()) * 3600 / per_hour
    return found


def run(jobs: Sequence[Job], choose: Choose, first: int, last: int, every: float = 0.0) -> Outcome:
    """Until the jobs from `first` up to `last` have ended. `choose` is asked when a job has come or gone, and
    no sooner than `every` seconds after the last time; until then what has ended leaves its GPU free."""
    left = {job.number: 1.0 for job in jobs}
    held: dict[int, int] = {}
    ended: dict[int, float] = {}
    waiting, coming, now, moves, decisions = list[int](), 0, 0.0, 0, 0
    open_ones = set(range(first, last))
    chosen: dict[int, int] = {}
    changed, asked = True, -math.inf
    while open_ones:
        while coming < len(jobs) and jobs[coming].arrival <= now:
            waiting.append(coming)
            coming += 1
            changed = True
        if changed and now - asked >= every:
            chosen, changed, asked = dict(choose(waiting)), False, now
            decisions += 1
        has_ended = False
        for number, model in chosen.items():
            lost = MOVE if held.get(number, model) != model else 0.0
            moves += 1 if lost else 0
            held[number] = model
            need = jobs[number].needs[model]
            if left[number] * need <= ROUND - lost:
                ended[number] = now + lost + left[number] * need
                has_ended = True
            left[number] -= (ROUND - lost) / need
        if has_ended:
            changed = True
            waiting = [number for number in waiting if number not in ended]
            chosen = {number: model for number, model in chosen.items() if number not in ended}
            open_ones.difference_update(ended)
        now += ROUND
    hours = sorted((ended[number] - jobs[number].arrival) / 3600 for number in range(first, last))
    return Outcome(
        sum(hours) / len(hours), hours[len(hours) * 99 // 100], moves / max(1, len(ended)), decisions
    )

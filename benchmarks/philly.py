"""Jobs of two virtual clusters of Philly on 8 nodes of 8 GPUs, and the model of time they run in.

At every arrival and every end all unfinished jobs are ranked and the cluster is filled afresh by whoever
fits; each such event costs every running job its start-up time, and an iteration that was begun counts.
Iterations take 1.5 % longer than in the trace. Times are whole microseconds. (As in Muri, SIGCOMM '22.)
"""

from __future__ import annotations

import csv
import gzip
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

NODES, GPUS = 8, 8
SECOND = 1_000_000
WIDE = 16
_DATA = Path(__file__).with_name("data")
#: Start-up seconds of 1, 2, 4, 8, 16 and 32 GPUs by model.
_START = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10,) * 6,
    "gpt2": (10,) * 6,
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}


@dataclass(slots=True)
class Job:
    """One job and how far it has come. Times in µs."""

    number: int  # in the order of arrival, from 1
    gpus: int
    submitted: int
    iteration: int
    start: int  # start-up time
    length: int  # without any start-up
    left: int = 0  # iterations
    held: int = 0  # time it had its GPUs, start-up included
    waits_since: int = 0  # it came, or was stopped last
    first: int | None = None
    ended: int | None = None

    @property
    def remaining(self) -> int:
        """Running time still to come."""
        return self.left * self.iteration


#: (now, unfinished jobs in the order of arrival) → those that run until the next event.
Fill = Callable[[int, Sequence[Job]], Sequence[Job]]


def jobs(trace: int) -> list[Job]:
    """The jobs of a virtual cluster, by arrival."""
    found = []
    with gzip.open(_DATA / f"philly_vc{trace}.csv.gz", "rt", encoding="utf-8") as text:
        rows = sorted(csv.DictReader(text), key=lambda row: int(row["submitted_s"]))
    for number, row in enumerate(rows, 1):
        gpus, iterations = int(row["gpus"]), int(row["iterations"])
        iteration = int(row["iteration_ms"]) * 1015  # ms × 1.015, in µs
        start = _START[row["model"]][gpus.bit_length() - 1] * SECOND
        submitted = int(row["submitted_s"]) * SECOND
        length = iterations * iteration
        found.append(
            Job(number, gpus, submitted, iteration, start, length, iterations, waits_since=submitted)
        )
    return found


def otherwise(trace: int, seed: int) -> list[Job]:
    """The same jobs in another order: the instants of arrival are those of the trace, dealt out anew."""
    work = jobs(trace)
    instants = [job.submitted for job in work]
    random.Random(seed).shuffle(work)
    for number, (job, at) in enumerate(zip(work, instants, strict=True), 1):
        job.number, job.submitted, job.waits_since = number, at, at
    return work


def published() -> dict[tuple[int, str], float]:
    """(trace, policy) → mean completion time in seconds."""
    with (_DATA / "philly_published.csv").open(encoding="utf-8") as text:
        return {(int(row["trace"]), row["policy"]): float(row["mean_s"]) for row in csv.DictReader(text)}


def run(work: Sequence[Job], fill: Fill, told: Callable[[int], None] = lambda _done: None) -> None:
    """Lives through it all, to the last end."""
    waits = list(work)
    live: list[Job] = []
    running: Sequence[Job] = ()
    now, done = waits[0].submitted, 0
    while waits or live:
        instants = [now + job.start + job.remaining for job in running]
        if waits:
            instants.append(waits[0].submitted)
        then = min(instants)
        for job in running:
            progress = max(0, then - now - job.start)
            job.left = max(0, job.left + -progress // job.iteration)  # begun counts: rounded up
            job.held += then - now
            job.waits_since = then
            if not job.left:
                job.ended = then
                done += 1
        live = [job for job in live if job.ended is None]
        while waits and waits[0].submitted <= then:
            live.append(waits.pop(0))
        now = then
        running = fill(now, live)
        for job in running:
            job.first = now if job.first is None else job.first
        told(done)


def first_fit(ranked: Sequence[Job]) -> list[Job]:
    """Whoever fits, in order: up to a node's GPUs on the first node with room, more on idle nodes."""
    free = [GPUS] * NODES
    placed = []
    for job in ranked:
        if job.gpus <= GPUS:
            nodes = [node for node in range(NODES) if free[node] >= job.gpus][:1]
            wanted = 1
        else:
            nodes = [node for node in range(NODES) if free[node] == GPUS]
            wanted = job.gpus // GPUS
        if len(nodes) >= wanted:
            for node in nodes[:wanted]:
                free[node] -= min(job.gpus, GPUS)
            placed.append(job)
    return placed


def srtf(_now: int, live: Sequence[Job]) -> list[Job]:
    """Shortest remaining time first, as published."""
    return first_fit(sorted(live, key=lambda job: (job.remaining, job.number)))


def srsf(_now: int, live: Sequence[Job]) -> list[Job]:
    """Shortest remaining service (time × GPUs) first, as published."""
    return first_fit(sorted(live, key=lambda job: (job.remaining * job.gpus, job.number)))


def mean_s(work: Sequence[Job]) -> float:
    """Mean completion time in seconds. All must have ended."""
    return mean((job.ended or 0) - job.submitted for job in work) / SECOND


def wide_wait_s(work: Sequence[Job]) -> float:
    """The longest wait of a job of 16 GPUs or more up to its first start."""
    waits = [job.first - job.submitted for job in work if job.gpus >= WIDE and job.first is not None]
    return max(waits, default=0) / SECOND

"""AlloX, a peer of `mixed_fleet` that knows how long jobs take: written after its paper (EuroSys '20).

Whoever runs stays where it is. When GPUs are free, the waiting jobs are matched to (GPU, place from its end)
so that the sum of completion times is least: the k-th from the end delays k jobs by its own length. Of each
GPU's jobs the one to run first starts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.gavel import EACH, MODELS, Job
from steelyard.scheduling.advantage import assign

#: Places from the end of a GPU that are told apart where several GPUs are free.
DEPTH = 12
_FAR = 10**9  # s; beyond any sum of completion times


class Allox:
    """One run."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.running: dict[int, int] = {}

    def __call__(self, waiting: Sequence[int]) -> Mapping[int, int]:
        """Starts what the matching lets run first."""
        there = set(waiting)
        self.running = {number: model for number, model in self.running.items() if number in there}
        free = [EACH - list(self.running.values()).count(model) for model in range(len(MODELS))]
        queue = [number for number in waiting if number not in self.running]
        kinds = [model for model, count in enumerate(free) if count > 0]
        if queue and sum(free) == 1:
            self._start(min(queue, key=lambda number: self.jobs[number].needs[kinds[0]]), kinds[0])
        elif queue and kinds:
            self._match(queue, kinds, free)
        return self.running

    def _match(self, queue: list[int], kinds: list[int], free: list[int]) -> None:
        depth = min(DEPTH, len(queue))
        columns = [(model, place) for place in range(1, depth + 1) for model in kinds]
        values = [
            [max(0, _FAR - int(min(_FAR, self.jobs[number].needs[at] * place))) for at, place in columns]
            for number in queue
        ]
        found = assign(values, [free[model] for model, _ in columns])
        for model in kinds:
            # a GPU runs the one with the most behind it first; equal GPUs are filled from the deepest place
            places = [
                (columns[kind][1], number)
                for number, kind in zip(queue, found, strict=True)
                if kind is not None and columns[kind][0] == model
            ]
            for _, number in sorted(places, reverse=True)[: free[model]]:
                self._start(number, model)

    def _start(self, number: int, model: int) -> None:
        self.running[number] = model
